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

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string changed = text.str();
  REQUIRE(changed.find(from) != std::string::npos);
  changed.replace(changed.find(from), from.size(), to);
  std::ofstream(file) << changed;
}

void record_data(const fs::path& run, const std::string& train) {
  auto environment = nlohmann::json::parse(std::ifstream(run / "environment.json"));
  environment["data"] = {{"train", train}};
  std::ofstream(run / "environment.json") << environment.dump();
}

TEST_CASE("a run of another config or of other data is named and in no mean") {
  const TemporaryFolder folder;
  fs::copy(kGrid, folder.path(), fs::copy_options::recursive);
  const std::vector<fs::path> grid{folder.path()};
  const std::vector<fs::path> two_rows{folder.path() / "t1_01_standard", folder.path() / "bov"};
  CHECK(has_line_with(comparison_text(read_compared_runs(grid)),
                      {"15 runs have not recorded which data they read; they count as of the same data."}));

  // The data of the committed records are not on this machine, and need not be.
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("seed-")) record_data(entry.path(), "11");
  }
  CHECK(unknown_data_note(read_compared_runs(grid)).empty());
  replace_in(folder.path() / "bov/seed-2/config.yaml", "n_embd: 128", "n_embd: 64");
  record_data(folder.path() / "bov/seed-3", "22");
  for (const auto& paths : {grid, two_rows}) {
    const GridResult rows = read_compared_runs(paths);
    const std::string text = comparison_text(rows);
    CHECK(has_line_with(text, {"bov", "1/3", "seed 2 another config: model.n_embd is 64 there and 128 here",
                               "seed 3 other data: train is \"22\" there and \"11\" here"}));
    CHECK(has_line_with(text, {"t1_01_standard", "3/3"}));
    const auto json = json_report(rows);
    for (const auto& row : json.at("rows")) {
      if (row.at("name") != "bov") continue;
      CHECK(row.at("difference").at("count") == 1);
      CHECK(row.at("runs").at(0).at("data_recorded") == true);
      CHECK(row.at("runs").at(1).at("status") == "another config");
      CHECK(row.at("runs").at(2).at("status") == "other data");
    }
    CHECK_THAT(markdown_report(rows), Catch::Contains("seed 2 another config: model.n_embd is 64"));
    CHECK_THAT(csv_report(rows), Catch::Contains("seed 3 other data: train is"));
  }
  // Two runs by themselves are compared as well.
  const GridResult runs = read_compared_runs({two_rows[0] / "seed-3", two_rows[1] / "seed-3"});
  CHECK(runs.rows[1].runs[0].status == RunStatus::other_data);
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
