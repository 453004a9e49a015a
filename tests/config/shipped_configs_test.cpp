#include <set>
#include <vector>

#include "bov/model/accounting.h"
#include "config/config_text.h"
#include "experiments/config/run_options.h"

namespace bov::experiments {

TEST_CASE("every config of the repository loads") {
  const fs::path configs = BOV_CONFIG_DIR;
  size_t grids = 0;
  for (const auto& entry : fs::recursive_directory_iterator(configs)) {
    const fs::path folder = entry.path().parent_path().filename();
    if (entry.path().extension() != ".yaml" || folder == "rows" || folder == "controls") continue;
    INFO(entry.path());
    if (is_grid_file(entry.path())) {
      ++grids;
      const GridConfig grid = load_grid_config(entry.path());
      CHECK(expand_grid(grid).size() == grid.rows.size() * grid.seeds.size());
    } else {
      CHECK_NOTHROW(load_run_config(entry.path()));
    }
  }
  CHECK(grids >= 7);
}

TEST_CASE("every row file names itself and is another run") {
  const TemporaryFolder folder;
  std::set<std::string> hashes;
  size_t files = 0;
  for (const char* rows : {"rows", "controls"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(BOV_CONFIG_DIR) / rows)) {
      INFO(entry.path());
      const fs::path file =
          write(folder / "row.yaml", "extends: " + entry.path().string() + "\nbudget: {steps: 1}\n");
      const RunConfig row = load_run_config(file);
      CHECK(row.name == entry.path().stem());
      hashes.insert(config_hash(row));
      ++files;
    }
  }
  CHECK(hashes.size() == files);
}

TEST_CASE("the paper's 12-layer tables resolve to the published steps") {
  const fs::path folder = fs::path(BOV_CONFIG_DIR) / "paper_135m";
  struct Row {
    std::string label;
    int64_t steps;
    int64_t parameters;
  };
  const std::vector<Row> table1{
      {"T1-1", 3766, 135266329},  {"T1-2", 3766, 135266333},  {"T1-3", 3969, 135266329},
      {"T1-4", 3874, 135266335},  {"T1-5", 3838, 135266329},  {"T1-6", 3838, 135266333},
      {"T1-7", 3766, 135266335},  {"T1-8", 3766, 135266329},  {"T1-9", 3766, 135266333},
      {"T1-10", 3766, 135266329}, {"T1-11", 3766, 135266337}, {"T1-12", 3697, 135266329},
      {"T1-13", 3697, 135266337}, {"BoV", 3838, 235929629}};
  const std::vector<Row> figure5b{{"BoV", 3838, 235929629},
                                  {"F5b every layer", 3989, 437256229},
                                  {"F5b add V", 3766, 235929633},
                                  {"F5b no coeff.", 3838, 235929625},
                                  {"F5b shared table", 3838, 160432157}};
  const auto check = [&](const std::string& file, const std::vector<Row>& rows) {
    const GridConfig grid = load_grid_config(folder / file);
    REQUIRE(grid.rows.size() == rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO(file << " " << rows[i].label);
      const RunConfig& config = grid.rows[i];
      CHECK(config.paper.row.substr(0, config.paper.row.find(',')) == rows[i].label);
      CHECK(resolve_steps(config) == rows[i].steps);
      CHECK(count_parameters(to_gpt_options(config, c10::DeviceType::CPU)).total_as_published() ==
            rows[i].parameters);
    }
  };
  check("table1.yaml", table1);
  check("figure5b.yaml", figure5b);
}

TEST_CASE("the paper's 24-layer tables have the published steps, rates and values") {
  const fs::path folder = fs::path(BOV_CONFIG_DIR) / "paper_780m";
  const GridConfig table2 = load_grid_config(folder / "table2.yaml");
  std::vector<int64_t> steps;
  std::vector<double> values;
  for (const auto& row : table2.rows) {
    steps.push_back(resolve_steps(row));
    values.push_back(row.paper.value.value());
  }
  CHECK(steps == std::vector<int64_t>{7809, 7998, 7809, 7998, 8380});
  CHECK(values == std::vector<double>{0.722, 0.714, 0.719, 0.718, 0.741});
  const BatchScaling scaling = published_batch_scaling(to_gpt_options(table2.base, c10::DeviceType::CPU));
  CHECK(table2.base.train.tokens_per_step == scaling.tokens_per_step);
  CHECK(table2.base.optimizer.batch_lr_scale == scaling.learning_rate);
  CHECK(table2.base.optimizer.weight_decay == scaling.weight_decay);
  const GridConfig table3 = load_grid_config(folder / "table3.yaml");
  CHECK(resolve_steps(table3.rows.at(1)) == 7809);
}

}  // namespace bov::experiments
