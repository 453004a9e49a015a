#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace bov::experiments {

/// What a result depends on besides its config: "versions" (bov, commit, libtorch, compiler), "hardware" (cpu, features,
/// cores, memory_bytes, gpus), "threads" and "command" (the arguments of this process).
nlohmann::json describe_environment();

/// Largest resident memory of this process so far, in bytes.
int64_t peak_memory_bytes();

}  // namespace bov::experiments
