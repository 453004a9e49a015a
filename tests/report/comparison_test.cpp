#include "experiments/report/comparison.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/ablation/compared_runs.h"
#include "experiments/report/table.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

// Comparisons of the committed records of the quickstart: five rows, three seeds each.
namespace bov::experiments {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

const fs::path kGrid = fs::path(BOV_SOURCE_DIR) / "docs/results/quickstart";

nlohmann::json table_row(const std::string& name) {
  const auto table = nlohmann::json::parse(std::ifstream(kGrid / "table.json"));
  for (const auto& row : table.at("rows")) {
    if (row.at("name") == name) return row;
  }
  throw std::runtime_error("table.json has no row " + name);
}

bool has_line_with(const std::string& text, const std::vector<std::string>& parts) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t at = 0;
    for (const std::string& part : parts) {
      at = line.find(part, at);
      if (at == std::string::npos) break;
      at += part.size();
    }
    if (at != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("rows are paired by seed as in the grid's own table") {
  const GridResult rows = read_compared_runs({kGrid / "t1_01_standard", kGrid / "bov/"});
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.baseline == "t1_01_standard");
  const RowResult& bov = rows.rows[1];
  CHECK(bov.row.name == "bov");
  CHECK(bov.row.parameters == 3'244'059);
  const RowSummary summary = summarize(bov, rows);
  const auto expected = table_row("bov");
  REQUIRE(summary.difference);
  CHECK(summary.difference->count == 3);
  CHECK(summary.difference->mean == Approx(expected["difference"]["mean"].get<double>()).epsilon(1e-12));
  CHECK(summary.difference->half_width.value() ==
        Approx(expected["difference"]["half_width_95"].get<double>()).epsilon(1e-9));
  CHECK(summary.peak_memory_bytes.mean > 1e8);

  const std::string text = comparison_text(rows);
  CHECK(has_line_with(text, {"bov", "γ·E_V[i]", "4-5", "3,244,059", "3/3", "2.0466 ± ", "-0.0036 ± "}));
  CHECK(has_line_with(text, {"run", "layer 4", "layer 5"}));
  CHECK(has_line_with(text, {"bov", "γ", "0.738", "0.661"}));
}

TEST_CASE("a grid gives all its rows, against its own baseline") {
  const GridResult rows = read_compared_runs({kGrid});
  CHECK(rows.rows.size() == 5);
  CHECK(rows.baseline == "t1_01_standard");
  CHECK(rows.name == "quickstart");
  const auto json = json_report(rows);
  for (const auto& row : json.at("rows")) {
    const auto expected = table_row(row.at("name"));
    CHECK(row.at("bits_per_byte").at("mean").get<double>() ==
          expected.at("bits_per_byte").at("mean").get<double>());
    CHECK(row.at("runs").size() == 3);
    CHECK(row.at("peak_memory_bytes").at("mean").is_number());
  }
}

TEST_CASE("single runs are compared without an interval, and only seed by seed") {
  const GridResult same_seed = read_compared_runs({kGrid / "t1_01_standard/seed-2", kGrid / "bov/seed-2"});
  CHECK(same_seed.rows[0].row.name == "t1_01_standard/seed-2");
  const RowSummary summary = summarize(same_seed.rows[1], same_seed);
  CHECK(summary.difference->count == 1);
  CHECK_FALSE(summary.difference->half_width);

  const GridResult other_seed = read_compared_runs({kGrid / "t1_01_standard/seed-1", kGrid / "bov/seed-2"});
  CHECK(summarize(other_seed.rows[1], other_seed).difference->count == 0);
  CHECK(has_line_with(comparison_text(other_seed),
                      {"bov/seed-2", "no finished seed in common with t1_01_standard/seed-1"}));
}

TEST_CASE("unfinished and missing runs are shown as such") {
  const TemporaryFolder folder;
  fs::copy(kGrid, folder.path(), fs::copy_options::recursive);
  fs::remove(folder.path() / "bov/seed-2/result.json");
  fs::remove_all(folder.path() / "bov/seed-3");
  const std::string text = comparison_text(read_compared_runs({folder.path()}));
  CHECK(has_line_with(text, {"bov", "1/3", "seed 2 unfinished; seed 3 missing"}));
}

TEST_CASE("a folder without runs and a row given twice are refused by name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_compared_runs({folder.path()}),
                    folder.path().string() +
                        ": neither a run (config.yaml), a row (seed-N folders) nor a grid (grid.yaml)");
  CHECK_THROWS_WITH(read_compared_runs({kGrid / "bov", kGrid / "bov/."}),
                    (kGrid / "bov").string() + " is given twice");
}

}  // namespace
}  // namespace bov::experiments
