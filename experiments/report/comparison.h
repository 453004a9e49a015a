#pragma once

#include <string>

#include "experiments/report/grid_result.h"

namespace bov::experiments {

/// Rows side by side for a terminal: bits per byte with their interval, the difference to the baseline paired by seed,
/// tokens/s, peak memory, then the final value coefficients with one column a layer. What is missing or does not count is
/// said in a note, and how many runs have not recorded their data.
std::string comparison_text(const GridResult& rows);

}  // namespace bov::experiments
