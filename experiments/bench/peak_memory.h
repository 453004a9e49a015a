#pragma once

#include <cstdint>
#include <functional>

namespace bov::experiments {

/// The most bytes of tensors that `work` held at one time beyond those that existed before, on all devices, results
/// included. Memory of other allocators is not seen.
int64_t peak_extra_bytes(const std::function<void()>& work);

}  // namespace bov::experiments
