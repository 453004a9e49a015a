#include <torch/utils.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <numbers>

#include "bov/io/checkpoint.h"
#include "experiments/data/text_hash.h"
#include "experiments/train/metrics_log.h"
#include "experiments/train/model_probe.h"
#include "experiments/train/trainer.h"
#include "support/catch.h"
#include "support/tensor_compare.h"
#include "train/tiny_run.h"

namespace bov::experiments {
namespace {

using Catch::Matchers::Contains;

std::vector<nlohmann::json> log_rows(const fs::path& run) {
  std::ifstream in(run / "metrics.jsonl");
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) {
    auto row = nlohmann::json::parse(line);
    row.erase("time");
    row.erase("tokens_per_second");
    rows.push_back(row);
  }
  return rows;
}

nlohmann::json result_without_timing(const fs::path& run) {
  auto result = nlohmann::json::parse(read_file(run / "result.json"));
  for (const char* key :
       {"training_seconds", "evaluation_seconds", "tokens_per_second", "peak_memory_bytes"}) {
    CHECK(result.erase(key) == 1);
  }
  return result;
}

void check_same_run(const fs::path& run, const fs::path& straight, int64_t steps) {
  const fs::path last = fs::path("checkpoints") / ("step-" + std::to_string(steps));
  CHECK(read_file(run / last / "model.safetensors") == read_file(straight / last / "model.safetensors"));
  CHECK(read_file(run / last / "optimizer.safetensors") ==
        read_file(straight / last / "optimizer.safetensors"));
  const auto metadata = nlohmann::json::parse(load_checkpoint(run / last).metadata);
  CHECK(metadata["loader"] == nlohmann::json::parse(load_checkpoint(straight / last).metadata)["loader"]);
  CHECK(log_rows(run) == log_rows(straight));
  CHECK(result_without_timing(run) == result_without_timing(straight));
}

/// Losses and rates every log.every steps, coefficients every log.coefficients_every steps.
void check_log(const std::vector<nlohmann::json>& rows, const RunConfig& config) {
  for (const int64_t step : {config.log.every, config.log.coefficients_every}) {
    INFO("step " << step);
    const auto row = std::ranges::find_if(rows, [&](const auto& row) { return row["step"] == step; });
    REQUIRE(row != rows.end());
    CHECK((*row)["tokens"] == step * config.train.tokens_per_step);
    CHECK((*row)["flops"].get<double>() > 0);
    CHECK((*row)["loss"].get<double>() > 0);
    CHECK((*row)["rates"].contains("matrix"));
    CHECK(row->contains("coefficients") == (step == config.log.coefficients_every));
  }
  CHECK(std::ranges::none_of(rows, [](const auto& row) { return row["step"] == 1; }));
}

}  // namespace

TEST_CASE("a tiny model learns") {
  const auto data = DataFolder::open(data_path());
  Trainer trainer(tiny_config(60), data, c10::kCPU);
  const double first = trainer.step();
  double last = 0;
  while (trainer.steps_done() < trainer.total_steps()) last = trainer.step();
  CHECK(first == Approx(std::log(kVocabulary)).margin(0.1));  // the head starts near zero: uniform guesses
  CHECK(last < 0.5 * first);
}

TEST_CASE("a step does not depend on how it is cut into micro-batches") {
  const auto data = DataFolder::open(data_path());
  auto config = tiny_config(10);
  config.model.parameter_dtype = config.model.table_dtype = config.model.compute_dtype = "float64";
  config.train.micro_batch = 2;
  Trainer accumulated(config, data, c10::kCPU);
  config.train.micro_batch = 8;
  Trainer whole(config, data, c10::kCPU);
  // Sums of 256 tokens' terms in another order: a few hundred roundings of 2^-53 at worst.
  constexpr double kBound = 1e-13;
  CHECK(accumulated.step() == Approx(whole.step()).epsilon(kBound));
  const auto gradients = whole.model()->named_parameters();
  for (const auto& parameter : accumulated.model()->named_parameters()) {
    INFO(parameter.key());
    const auto expected = gradients[parameter.key()].grad();
    // The MLP's first gradients are exact zeros, since its zero output matrix stops them.
    CHECK(testing::relative_error(parameter.value().grad(), expected) < kBound);
  }
}

TEST_CASE("a config that cannot be trained is refused") {
  const auto data = DataFolder::open(data_path());
  auto config = tiny_config(10);
  config.train.tokens_per_step = 300;
  CHECK_THROWS_WITH(
      Trainer(config, data, c10::kCPU),
      Contains(
          "train.tokens_per_step is 300; expected a multiple of micro_batch x sequence_length = 4 x 32"));
  config = tiny_config(10);
  config.model.vocab_size = 300;
  CHECK_THROWS_WITH(Trainer(config, data, c10::kCPU),
                    Contains("model.vocab_size is 300") && Contains("320 tokens"));
}

TEST_CASE("bits per byte count every byte of the validation text once") {
  int64_t bytes = 0;
  for (const auto& text : documents()) {
    if (in_validation_split(text, kValidationPerMille)) bytes += static_cast<int64_t>(text.size());
  }
  REQUIRE(bytes > 2000);
  const auto data = DataFolder::open(data_path());
  Trainer trainer(tiny_config(10), data, c10::kCPU);
  {
    const torch::NoGradGuard no_grad;
    trainer.model()->head.zero_();  // every token then costs exactly ln V nats
  }
  const ValidationOptions whole = {.rows = 3, .sequence_length = 32, .tokens = 0};
  const auto result = evaluate(trainer.model(), data, c10::kCPU, whole).value();
  CHECK(result.bytes == bytes);
  CHECK(result.tokens == data.validation().tokens());
  // ln V is rounded to float32 in the loss.
  CHECK(result.loss == Approx(std::log(kVocabulary)).epsilon(0x1p-23));
  CHECK(result.bits_per_byte ==
        Approx(static_cast<double>(result.tokens) * std::log2(kVocabulary) / static_cast<double>(bytes))
            .epsilon(0x1p-23));

  ValidationOptions part = whole;
  part.tokens = 3 * 32 * 2 + 95;  // two whole batches
  const auto two_batches = evaluate(trainer.model(), data, c10::kCPU, part).value();
  CHECK(two_batches.tokens <= 3 * 32 * 2);
  CHECK(two_batches.tokens > 3 * 32 * 2 / 2);
  part.tokens = 1;
  CHECK(evaluate(trainer.model(), data, c10::kCPU, part).value().tokens <= 3 * 32);
  part.as_published = true;
  part.tokens = 4 * bytes;  // more than the split: the published loader goes around
  CHECK(evaluate(trainer.model(), data, c10::kCPU, part).value().bytes > bytes);
  part.tokens = 0;
  CHECK_THROWS_WITH(evaluate(trainer.model(), data, c10::kCPU, part), Contains("evaluation.tokens is 0"));
}

TEST_CASE("the log drops what lies beyond a checkpoint and half a line") {
  const fs::path file = scratch() / "log.jsonl";
  std::ofstream(file) << R"({"step":0,"validation_bpb":3.5})"
                      << "\n"
                      << R"({"step":2})"
                      << "\n"
                      << R"({"step":4,"validation_bpb":2.5})"
                      << "\n"
                      << R"({"step":2,"lo)";
  MetricsLog log(file, 2);
  CHECK(log.has_evaluation(0));
  CHECK_FALSE(log.has_evaluation(4));
  log.append({{"step", 3}});
  CHECK(read_file(file) == "{\"step\":0,\"validation_bpb\":3.5}\n{\"step\":2}\n{\"step\":3}\n");
  std::ofstream(file) << "{\"step\":1}\nnonsense\n";
  CHECK_THROWS_WITH(MetricsLog(file, 2), Contains("log.jsonl:2: no log row: nonsense"));
}

TEST_CASE("a killed or stopped run ends as a straight one") {
  constexpr int64_t kSteps = 150;
  auto config = tiny_config(kSteps);
  TrainProgram straight("straight", config);
  REQUIRE(straight.run().succeeded());
  const auto rows = log_rows(straight.folder());
  CHECK(rows.front()["step"] == 0);
  CHECK(rows.front().contains("validation_bpb"));
  CHECK(rows.back()["step"] == kSteps);
  CHECK(rows.back()["validation_bpb"] < 0.7 * rows.front()["validation_bpb"].get<double>());
  check_log(rows, config);

  SECTION("killed twice") {
    TrainProgram killed("killed", config);
    CHECK(killed.run_until(20, SIGKILL).signal == SIGKILL);
    CHECK(killed.run_until(70, SIGKILL).signal == SIGKILL);
    REQUIRE(killed.run().succeeded());
    CHECK_THAT(killed.log(), Contains("going on from"));
    check_same_run(killed.folder(), straight.folder(), kSteps);
    const auto environment = nlohmann::json::parse(read_file(killed.folder() / "environment.json"));
    CHECK(environment["resumed"].size() == 2);

    REQUIRE(killed.run().succeeded());
    CHECK_THAT(killed.log(), Contains("this run is finished"));
  }
  SECTION("stopped by a signal, once without room for the next checkpoint") {
    TrainProgram stopped("stopped", config);
    CHECK(stopped.run_until(10, SIGTERM).status == 128 + SIGTERM);
    CHECK_THAT(stopped.log(),
               Contains("stopped by SIGTERM after step") && Contains("the same command goes on"));
    const auto before = latest_checkpoint(stopped.folder() / "checkpoints").path.value();

    // No file may grow beyond 64 blocks of 512 bytes, which a model does: for the program as good as a full disk.
    auto command = stopped.command();
    stopped.command() = {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"};
    stopped.command().insert(stopped.command().end(), command.begin(), command.end());
    CHECK(stopped.run().status == 1);
    CHECK_THAT(stopped.log(), Contains("File too large"));
    CHECK(latest_checkpoint(stopped.folder() / "checkpoints").path == before);

    stopped.command() = command;
    REQUIRE(stopped.run().succeeded());
    check_same_run(stopped.folder(), straight.folder(), kSteps);
  }
  SECTION("stopped at the keyboard") {
    TrainProgram interrupted("interrupted", config);
    CHECK(interrupted.run_until(10, SIGINT).status == 128 + SIGINT);
    CHECK_THAT(interrupted.log(), Contains("stopped by SIGINT after step"));
    REQUIRE(interrupted.run().succeeded());
    check_same_run(interrupted.folder(), straight.folder(), kSteps);
  }
  SECTION("another config") {
    config.train.seed = 43;
    TrainProgram other("straight", config);
    CHECK(other.run().status == 1);
    CHECK_THAT(other.log(), Contains("holds a run of another config: train.seed is 42 there and 43 here"));
    other.command().push_back("--fresh");
    REQUIRE(other.run().succeeded());
    CHECK(log_rows(other.folder()).back() != rows.back());
  }
}

TEST_CASE("a run that diverges names the step and the first bad tensor") {
  auto config = tiny_config(40);
  config.optimizer.warmup_steps = 0;
  config.checkpoint.every = 1;
  SECTION("a parameter, before it reaches a checkpoint") {
    config.optimizer.embedding_lr = 1e60;  // beyond float32: infinite after the first step
    TrainProgram program("bad-parameter", config);
    CHECK(program.run().status == 1);
    CHECK_THAT(program.log(), Contains("diverged: after step 1: first bad tensor: parameter embedding"));
    CHECK_FALSE(latest_checkpoint(program.folder() / "checkpoints").path);
    const auto result = nlohmann::json::parse(read_file(program.folder() / "result.json"));
    CHECK(result["status"] == "diverged");
    CHECK_THAT(result["error"].get<std::string>(), Contains("step 1"));
    CHECK(program.run().status == 1);
    CHECK_THAT(program.log(), Contains("this run has diverged"));
  }
  SECTION("a gradient, while the parameters are huge but finite") {
    config.optimizer.matrix_lr = 1e38;
    TrainProgram program("bad-gradient", config);
    CHECK(program.run().status == 1);
    CHECK_THAT(program.log(),
               Contains("diverged: step 2: the loss is NaN; first bad tensor: gradient of embedding") &&
                   Contains("checkpoint of step 1 is kept"));
    CHECK(latest_checkpoint(program.folder() / "checkpoints").path);
  }
}

TEST_CASE("equal rates of the coefficients are a value of the config") {
  auto config = tiny_config(10);
  config.value.combine = ValueCombine::add;
  const auto data = DataFolder::open(data_path());
  CHECK(Trainer(config, data, c10::kCPU).rates().at("alpha") == Approx(0.01 * 0.5 / 4).epsilon(1e-15));
  config.optimizer.alpha_lr_ratio = 1;
  const auto rates = Trainer(config, data, c10::kCPU).rates();
  CHECK(rates.at("alpha") == rates.at("coefficient"));
}

TEST_CASE("a coefficient of each head is logged by head") {
  auto config = tiny_config(10);
  config.value.coefficient = ValueCoefficient::learned_per_head();
  const auto data = DataFolder::open(data_path());
  Trainer trainer(config, data, c10::kCPU);
  trainer.step();
  trainer.step();
  const auto layer = value_coefficients(trainer.model()).at("2");
  CHECK(layer.size() == 2);
  CHECK(layer.at("gamma_0") != layer.at("gamma_1"));
}

TEST_CASE("both coefficients of a sum and the mean of a gate are logged") {
  auto config = tiny_config(10);
  config.value.combine = ValueCombine::add;
  const auto data = DataFolder::open(data_path());
  const auto names = [&] {
    Trainer trainer(config, data, c10::kCPU);
    const GateRecording recording(trainer.model(), true);
    trainer.step();
    const auto layer = value_coefficients(trainer.model()).at("2");
    std::vector<std::string> found;
    for (const auto& [name, value] : layer.items()) found.push_back(name);
    return found;
  };
  CHECK(names() == std::vector<std::string>{"alpha", "beta"});
  config.value.coefficient = ValueCoefficient::gated();
  CHECK(names() == std::vector<std::string>{"gate_mean", "gate_std"});
}

}  // namespace bov::experiments
