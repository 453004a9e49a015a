#include "experiments/report/inspection.h"

#include <utility>

#include "experiments/config/run_options.h"
#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"
#include "experiments/report/value_formula.h"

namespace bov::experiments {
namespace {

using Line = std::pair<const char*, int64_t>;

/// Digits in groups of three.
std::string grouped(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

int64_t training_bytes(const MemoryEstimate& memory) {
  return memory.weights + memory.gradients + memory.optimizer + memory.activations;
}

std::vector<Line> parameter_lines(const ParameterCounts& counts) {
  return {{"token embedding", counts.embedding},
          {"head", counts.head},
          {"matrices", counts.matrices},
          {"banks", counts.banks},
          {"coefficients", counts.coefficients},
          {"smear", counts.smear},
          {"total", counts.total()},
          {"dead value projections, not allocated", counts.dead},
          {"total as published", counts.total_as_published()}};
}

std::vector<Line> cost_lines(const Inspection& inspection) {
  return {{"FLOPs per token as published", inspection.flops_per_token},
          {"FLOPs per token executed", inspection.executed_flops_per_token},
          {"steps", inspection.steps},
          {"tokens per step", inspection.config.train.tokens_per_step},
          {"tokens", inspection.tokens}};
}

std::vector<Line> memory_lines(const MemoryEstimate& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations, estimate for a micro-batch", memory.activations},
          {"training, sum", training_bytes(memory)},
          {"K cache of a sequence", memory.key_cache},
          {"V cache of a sequence", memory.value_cache},
          {"V cache saved", memory.value_cache_saved}};
}

nlohmann::ordered_json lines_json(const std::vector<Line>& lines) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : lines) {
    json[name] = value;
  }
  return json;
}

std::string lines_text(const std::string& title,
                       const std::vector<Line>& lines,
                       std::string (*number)(int64_t)) {
  TextTable table{{{title}, {"", Align::right}}, {}};
  for (const auto& [name, value] : lines) {
    table.rows.push_back({name, number(value)});
  }
  return render_terminal(table);
}

}  // namespace

Inspection inspect_config(const RunConfig& config) {
  const c10::Device device = resolve_device(config.train);
  const GPTOptions options = to_gpt_options(config, device.type());
  Inspection inspection;
  inspection.config = config;
  inspection.device = device.str();
  inspection.parameters = count_parameters(options);
  inspection.flops_per_token = flops_per_token(options);
  inspection.executed_flops_per_token = executed_flops_per_token(options);
  inspection.steps = resolve_steps(config);
  inspection.tokens = inspection.steps * config.train.tokens_per_step;
  inspection.memory = estimate_memory(options, config.train.micro_batch);
  return inspection;
}

nlohmann::ordered_json to_json(const Inspection& inspection) {
  const RunConfig& config = inspection.config;
  nlohmann::ordered_json json;
  json["name"] = config.name;
  json["paper row"] = config.paper.row;
  json["values"] = value_formula(config.value);
  json["target layers"] = target_layers(config.value, config.model.n_layer);
  json["device"] = inspection.device;
  json["parameters"] = lines_json(parameter_lines(inspection.parameters));
  json["training"] = lines_json(cost_lines(inspection));
  json["memory in bytes"] = lines_json(memory_lines(inspection.memory));
  return json;
}

std::string to_text(const Inspection& inspection) {
  const RunConfig& config = inspection.config;
  const std::string targets = target_layers_text(config.value, config.model.n_layer);
  std::string text = config.name + ": values " + value_formula(config.value);
  text += targets == "-" ? " in every layer"
                         : " in layers " + targets + " of " + std::to_string(config.model.n_layer);
  text += "\n\n";
  text += lines_text("Parameters", parameter_lines(inspection.parameters), grouped);
  text += "\n";
  text += lines_text("Training", cost_lines(inspection), grouped);
  text += "\n";
  text += lines_text("MiB of memory on " + inspection.device, memory_lines(inspection.memory),
                     [](int64_t bytes) { return mebibytes_text(bytes); });
  return text;
}

std::string to_table(const std::vector<Inspection>& inspections) {
  TextTable table{{{"row"},
                   {"values"},
                   {"layers"},
                   {"parameters", Align::right},
                   {"published", Align::right},
                   {"banks", Align::right},
                   {"FLOPs/token", Align::right},
                   {"steps", Align::right},
                   {"tokens", Align::right},
                   {"training MiB", Align::right},
                   {"V cache MiB", Align::right},
                   {"saved MiB", Align::right}},
                  {}};
  for (const auto& inspection : inspections) {
    const RunConfig& config = inspection.config;
    table.rows.push_back(
        {config.name, value_formula(config.value), target_layers_text(config.value, config.model.n_layer),
         grouped(inspection.parameters.total()), grouped(inspection.parameters.total_as_published()),
         grouped(inspection.parameters.banks), grouped(inspection.flops_per_token), grouped(inspection.steps),
         grouped(inspection.tokens), mebibytes_text(training_bytes(inspection.memory)),
         mebibytes_text(inspection.memory.value_cache), mebibytes_text(inspection.memory.value_cache_saved)});
  }
  return render_terminal(table);
}

}  // namespace bov::experiments
