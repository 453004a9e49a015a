#include <torch/utils.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <numbers>
#include <random>
#include <sstream>
#include <thread>

#include "bov/io/checkpoint.h"
#include "experiments/ablation/child_process.h"
#include "experiments/config/yaml_config.h"
#include "experiments/data/data_builder.h"
#include "experiments/data/text_hash.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "experiments/train/metrics_log.h"
#include "experiments/train/run_lock.h"
#include "experiments/train/trainer.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

constexpr int kValidationPerMille = 100;
constexpr int32_t kVocabulary = 320;

/// A folder of this test process, removed at its end.
class ScratchFolder {
 public:
  ScratchFolder() : path_(fs::temp_directory_path() / ("bov-train-test-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~ScratchFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const fs::path& scratch() {
  static const ScratchFolder folder;
  return folder.path();
}

/// Sentences with a grammar that a small model can learn, non-ASCII words included.
std::vector<std::string> documents() {
  const std::vector<std::string> subjects = {"the cat", "a naïve dog", "my sister", "the old café"};
  const std::vector<std::string> verbs = {"sees", "likes", "never finds", "remembers"};
  const std::vector<std::string> objects = {"the river", "seven apples", "a quiet street", "nothing"};
  std::mt19937 random(7);
  const auto pick = [&](const auto& words) { return words[random() % words.size()]; };
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    std::string text = "Story " + std::to_string(i) + ": ";
    const size_t sentences = 1 + random() % 12;
    for (size_t s = 0; s < sentences; ++s)
      text += pick(subjects) + " " + pick(verbs) + " " + pick(objects) + ". ";
    texts.push_back(text);
  }
  return texts;
}

/// Tokenizer and token shards of documents(), made once.
const fs::path& data_path() {
  static const fs::path folder = [] {
    const fs::path text = scratch() / "text.jsonl";
    std::ofstream out(text);
    for (const auto& document : documents()) out << nlohmann::json{{"text", document}}.dump() << '\n';
    out.close();
    DocumentReader for_tokenizer({text});
    train_tokenizer(for_tokenizer, {.vocab_size = kVocabulary, .validation_per_mille = kValidationPerMille},
                    scratch() / "tokenizer");
    DocumentReader for_data({text});
    build_data(for_data, {.tokenizer = scratch() / "tokenizer", .validation_per_mille = kValidationPerMille},
               scratch() / "data");
    return scratch() / "data";
  }();
  return folder;
}

RunConfig tiny_config(int64_t steps) {
  RunConfig config;
  config.name = "tiny";
  config.value = {
      .coefficient = ValueCoefficient::learned(), .source = "bank", .layers = TargetRule::last_third};
  config.model.n_layer = 3;
  config.model.n_embd = 32;
  config.model.n_head = 2;
  config.model.n_kv_head = 2;
  config.model.sequence_length = 32;
  config.model.vocab_size = kVocabulary;
  config.optimizer.warmup_steps = 4;
  config.data.shards = data_path();
  config.data.buffer_documents = 50;
  config.budget.steps = steps;
  config.train.tokens_per_step = 8 * 32;
  config.train.micro_batch = 4;
  config.train.device = "cpu";
  config.evaluation.every = 20;
  config.evaluation.tokens = 512;
  config.log.every = 3;
  config.log.coefficients_every = 7;
  config.checkpoint.every = 10;
  return config;
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// `bov train` on `config` in a folder below the scratch folder.
class TrainProgram {
 public:
  TrainProgram(const std::string& name, const RunConfig& config)
      : folder_(scratch() / name), log_(scratch() / (name + ".log")) {
    const fs::path file = scratch() / (name + ".yaml");
    std::ofstream(file) << write_run_config(config);
    command_ = {BOV_PROGRAM, "train", file, "--run-dir", folder_, "--threads", "1"};
  }

  const fs::path& folder() const { return folder_; }
  std::string log() const { return read_file(log_); }
  std::vector<std::string>& command() { return command_; }

  /// Runs to the end. `meanwhile` is called every millisecond until it returns true.
  ChildExit run(const std::function<bool(ChildProcess&)>& meanwhile = {}) {
    fs::remove(log_);
    ChildProcess child({command_, {{"OMP_NUM_THREADS", "1"}}, log_});
    bool done = !meanwhile;
    while (true) {
      if (const auto exit = child.poll()) return *exit;
      if (!done) done = meanwhile(child);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// Runs until a checkpoint of at least `step` is there, then sends `signal`.
  ChildExit run_until(int64_t step, int signal) {
    return run([&](ChildProcess& child) {
      const auto checkpoints = folder_ / "checkpoints";
      if (!fs::exists(checkpoints)) return false;
      for (const auto& entry : fs::directory_iterator(checkpoints)) {
        const std::string name = entry.path().filename();
        if (name.find(".tmp") != std::string::npos || std::stoll(name.substr(5)) < step) continue;
        child.send(signal);
        return true;
      }
      return false;
    });
  }

 private:
  fs::path folder_;
  fs::path log_;
  std::vector<std::string> command_;
};

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

TEST_CASE("a folder that cannot be written or is in use is refused") {
  const auto config = tiny_config(5);
  TrainProgram program("refused", config);
  auto command = program.command();
  *std::ranges::find(program.command(), program.folder().string()) = "/proc/bov-run";
  CHECK(program.run().status == 1);
  CHECK_THAT(program.log(), Contains("/proc/bov-run: the run's folder cannot be made"));

  program.command() = command;
  fs::create_directories(program.folder());
  const RunLock lock(program.folder());
  CHECK(program.run().status == 1);
  CHECK_THAT(program.log(), Contains("another process trains in this folder"));
}

}  // namespace bov::experiments
