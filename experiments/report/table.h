#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/report/grid_result.h"

/// The ablation table with the findings below it. A row holds: the paper's row, formula, target layers,
/// coefficient, parameters, steps, tokens, validation bits per byte (mean ± half width of the 95 % interval
/// over seeds), the difference to the baseline paired by seed with its interval, the published value and
/// difference, tokens/s and the final coefficients. A grid with missing or failed runs gives the same table
/// with what there is.
namespace bov::experiments {

/// For a terminal; without coefficients, which would not fit a line.
std::string terminal_report(const GridResult& grid);

std::string markdown_report(const GridResult& grid);

/// RFC 4180, one header line, one line a row; an absent number is an empty field.
std::string csv_report(const GridResult& grid);

/// {"grid", "baseline", "rows": [... with "runs"], "findings": [...]}; an absent number is null.
nlohmann::ordered_json json_report(const GridResult& grid);

/// Writes table.md, table.csv and table.json into `folder`, each whole or not at all. Throws
/// std::runtime_error naming the file that cannot be written.
void write_report(const GridResult& grid, const std::filesystem::path& folder);

}  // namespace bov::experiments
