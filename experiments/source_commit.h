#pragma once

namespace bov::experiments {

/// Git commit of the source this program was built from, with "-dirty" if tracked files had changed, or "unknown".
/// Written by the build (cmake/WriteSourceCommit.cmake).
const char* source_commit();

}  // namespace bov::experiments
