#include "experiments/config/grid_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "experiments/config/config_text.h"
#include "experiments/config/run_config_reader.h"
#include "experiments/grid_files.h"

namespace bov::experiments {
namespace {

struct GridKey {
  const char* key;
  const char* meaning;
};

constexpr std::array kGridKeys{
    GridKey{"name", "of the grid and its folder; the file's stem if missing"},
    GridKey{"base", "sections that all rows share, and `extends: file`"},
    GridKey{"prepare", "how to make missing data; fields below"},
    GridKey{"rows",
            "list of rows: any sections, changing the base's, and `file:` of a row that other grids share"},
    GridKey{"seeds", "list; each row runs with each of them; train.seed of the base if missing"},
    GridKey{"baseline", "name of the row that the others are compared with; the first row if missing"},
    GridKey{"jobs", "runs side by side; 1 if missing"},
};

PrepareConfig read_prepare(const YamlMapping& mapping) {
  PrepareConfig prepare;
  mapping.read_fields(prepare);
  visit_fields(prepare, [&](const Field& field, const std::string& member) {
    if (member.empty()) {
      mapping.fail(mapping.line(), "prepare." + std::string(field.key) + " is missing; expected " +
                                       expectation(field.rule, member));
    }
  });
  return prepare;
}

std::vector<RunConfig> read_rows(const YamlMapping& grid, const RunConfigReader& base) {
  std::vector<RunConfig> rows;
  for (const auto& mapping : grid.children("rows")) {
    RunConfigReader reader = base;
    reader.forget_name();
    reader.apply(mapping, "file");
    RunConfig row = reader.checked(mapping);
    if (row.name.empty()) {
      mapping.fail(mapping.line(), "a row without a name; expected name, or file: of a row that has one");
    }
    if (std::find(kGridFiles.begin(), kGridFiles.end(), row.name) != kGridFiles.end()) {
      mapping.fail(mapping.line(), "a row is called \"" + row.name +
                                       "\", as a file in the grid's folder; expected another name");
    }
    const bool repeated =
        std::any_of(rows.begin(), rows.end(), [&](const auto& other) { return other.name == row.name; });
    if (repeated) {
      mapping.fail(mapping.line(), "two rows are called \"" + row.name + "\"; expected different names");
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    grid.fail(grid.line_of("rows"), "rows is empty; expected one row or more");
  }
  return rows;
}

std::vector<int64_t> read_seeds(const YamlMapping& grid, int64_t base_seed) {
  if (!grid.has("seeds")) {
    return {base_seed};
  }
  const YAML::Node& node = grid.node("seeds");
  std::vector<int64_t> seeds;
  for (size_t i = 0; node.IsSequence() && i < node.size(); ++i) {
    int64_t seed = 0;
    if (!parse_field(node[i], seed) || seed < 0 ||
        std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) {
      grid.fail(grid.line_of("seeds"), "seeds: entry " + std::to_string(i + 1) +
                                           " is no seed; expected different integers of 0 or more");
    }
    seeds.push_back(seed);
  }
  if (seeds.empty()) {
    grid.fail_value("seeds", "a list of one seed or more");
  }
  return seeds;
}

std::string read_baseline(const YamlMapping& grid, const std::vector<RunConfig>& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    names.push_back(row.name);
  }
  std::string baseline = names.front();
  grid.read(Field{"baseline", one_of(names), ""}, baseline);
  return baseline;
}

}  // namespace

bool is_grid_file(const std::filesystem::path& file) {
  return YamlMapping::read_file(file).has("rows");
}

GridConfig load_grid_config(const std::filesystem::path& file) {
  const YamlMapping mapping = YamlMapping::read_file(file);
  std::vector<std::string> known;
  for (const auto& entry : kGridKeys) {
    known.emplace_back(entry.key);
  }
  // First of all, because a run's config in the place of a grid has many unknown keys.
  for (const char* required : {"base", "rows"}) {
    if (!mapping.has(required)) {
      mapping.fail(1, std::string(required) + " is missing; a grid needs base and rows");
    }
  }
  mapping.check_keys(known);
  GridConfig grid;
  grid.name = file.stem().string();
  mapping.read(Field{"name", folder_name(), ""}, grid.name);
  mapping.read(Field{"jobs", at_least(1), ""}, grid.jobs);
  if (mapping.has("prepare")) {
    grid.prepare = read_prepare(mapping.child("prepare"));
  }
  RunConfigReader base;
  base.apply(mapping.child("base"), "extends");
  grid.base = base.config();
  grid.rows = read_rows(mapping, base);
  if (grid.prepare && grid.base.data.shards.empty()) {
    mapping.fail(mapping.line_of("prepare"),
                 "prepare has no place for the token shards; expected a folder in base.data.shards");
  }
  grid.seeds = read_seeds(mapping, grid.base.train.seed);
  grid.baseline = read_baseline(mapping, grid.rows);
  return grid;
}

std::string write_grid_config(const GridConfig& grid) {
  std::string text = "name: " + field_text(grid.name) + "\n";
  text += "baseline: " + field_text(grid.baseline) + "\n";
  text += "jobs: " + field_text(grid.jobs) + "\n";
  std::string seeds;
  for (const int64_t seed : grid.seeds) {
    seeds += (seeds.empty() ? "" : ", ") + field_text(seed);
  }
  text += "seeds: [" + seeds + "]\n";
  if (grid.prepare) {
    text += "prepare:\n" + fields_text(*grid.prepare, "  ");
  }
  text += "base:\n" + run_config_text(grid.base, "  ");
  text += "rows:\n";
  for (const auto& row : grid.rows) {
    std::string lines = run_config_text(row, "    ");
    text += lines.replace(0, 4, "  - ");
  }
  return text;
}

std::string document_grid_config() {
  std::string text = "### Grid\n\nRows of one table\n\n| key | meaning |\n|---|---|\n";
  for (const auto& entry : kGridKeys) {
    text += "| `" + std::string(entry.key) + "` | " + entry.meaning + " |\n";
  }
  return text + "\n" + fields_document("prepare", "How a grid makes its data", PrepareConfig{});
}

std::vector<GridRun> expand_grid(const GridConfig& grid) {
  std::vector<GridRun> runs;
  for (const auto& row : grid.rows) {
    for (const int64_t seed : grid.seeds) {
      runs.push_back({row.name, seed, row});
      runs.back().config.train.seed = seed;
    }
  }
  return runs;
}

}  // namespace bov::experiments
