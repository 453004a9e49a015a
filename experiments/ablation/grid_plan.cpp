#include "experiments/ablation/grid_plan.h"

#include <c10/core/DeviceType.h>

#include "bov/model/accounting.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/run_options.h"
#include "experiments/report/value_formula.h"

namespace bov::experiments {

GridRow plan_row(const RunConfig& config) {
  // Counts do not depend on the device.
  const GPTOptions options = to_gpt_options(config, c10::DeviceType::CPU);
  return {.name = config.name,
          .paper_row = config.paper.row,
          .paper_value = config.paper.value,
          .formula = value_formula(config.value),
          .layers = target_layers_text(config.value, config.model.n_layer),
          .coefficient = coefficient_text(config.value),
          .parameters = count_parameters(options).total(),
          .flops_per_token = flops_per_token(options),
          .steps = resolve_steps(config),
          .tokens_per_step = config.train.tokens_per_step};
}

GridPlan plan_grid(const GridConfig& grid, const std::filesystem::path& folder) {
  GridPlan plan{.name = grid.name,
                .folder = folder,
                .baseline = grid.baseline,
                .rows = {},
                .seeds = grid.seeds,
                .runs = {}};
  for (const RunConfig& row : grid.rows) plan.rows.push_back(plan_row(row));
  const std::vector<GridRun> runs = expand_grid(grid);  // row by row
  for (size_t seed = 0; seed < grid.seeds.size(); ++seed) {
    for (size_t row = 0; row < grid.rows.size(); ++row) {
      const GridRun& run = runs[row * grid.seeds.size() + seed];
      plan.runs.push_back({.row = row,
                           .seed = run.seed,
                           .folder = folder / run.row / ("seed-" + std::to_string(run.seed)),
                           .config = run.config,
                           .shards = run.config.data.shards,
                           .data = nullptr});
    }
  }
  return plan;
}

}  // namespace bov::experiments
