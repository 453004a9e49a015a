#pragma once

#include <vector>

#include "experiments/bench/bench_group.h"
#include "experiments/bench/bench_inputs.h"

/// The benchmarks of each operator, one function a file. A new one is declared here and listed in op_benches.cpp.
/// `inputs` outlives the groups.
namespace bov::experiments {

std::vector<BenchGroup> bank_attention_benches(const BenchInputs& inputs);
std::vector<BenchGroup> copy_benches(const BenchInputs& inputs);
std::vector<BenchGroup> decode_attention_benches(const BenchInputs& inputs);
std::vector<BenchGroup> decode_step_benches(const BenchInputs& inputs);
std::vector<BenchGroup> token_index_benches(const BenchInputs& inputs);
std::vector<BenchGroup> value_gather_benches(const BenchInputs& inputs);
std::vector<BenchGroup> windowed_attention_benches(const BenchInputs& inputs);

/// All of them, in the order of the list.
std::vector<BenchGroup> op_benches(const BenchInputs& inputs);

/// A copy of `bytes` between two blocks of memory by all threads: the speed that no operator which reads and writes as
/// much can beat. Its `bytes` counts both directions.
BenchCase copy_case(int64_t bytes, c10::Device device);

}  // namespace bov::experiments
