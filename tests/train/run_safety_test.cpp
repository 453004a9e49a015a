#include <csignal>

#include "bov/io/checkpoint.h"
#include "experiments/data/data_folder.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/run_lock.h"
#include "support/catch.h"
#include "train/tiny_run.h"

// No bad input, changed data or failure costs an earlier run or goes into a new one unseen.
namespace bov::experiments {

using Catch::Matchers::Contains;

TEST_CASE("what can fail early does so before an earlier run is touched or a new one begun") {
  auto config = tiny_config(4);
  TrainProgram program("early", config);
  REQUIRE(program.run().succeeded());
  const std::string result = read_file(program.folder() / "result.json");
  const auto refused = [&](const RunConfig& changed, std::vector<std::string> options,
                           const std::string& message) {
    TrainProgram again("early", changed);
    options.push_back("--fresh");
    again.command().insert(again.command().end(), options.begin(), options.end());
    CHECK(again.run().status == 1);
    CHECK_THAT(again.log(), Contains(message));
    CHECK(read_file(program.folder() / "result.json") == result);
    CHECK(fs::exists(program.folder() / "checkpoints/step-4/model.safetensors"));
  };
  auto changed = config;
  changed.data.shards = "/nowhere";
  refused(changed, {}, "no finished data in '/nowhere'");
  changed = config;
  changed.model.vocab_size = 64;
  refused(changed, {}, "model.vocab_size is 64");
  changed = config;
  changed.train.device = "cuda:99";
  refused(changed, {}, "cuda:99");
  refused(config, {"--device", "cuda"}, "train.device is \"cpu\", but the device asked for is \"cuda\"");

  // A first start with a mistyped path leaves nothing that stands in the way of the right one.
  changed = config;
  changed.data.shards = "/nowhere";
  TrainProgram mistyped("first-start", changed);
  CHECK(mistyped.run().status == 1);
  CHECK_FALSE(fs::exists(mistyped.folder() / "config.yaml"));
  config.train.device = "auto";
  TrainProgram corrected("first-start", config);
  corrected.command().insert(corrected.command().end(), {"--device", "cpu"});
  CHECK(corrected.run().succeeded());
  CHECK_THAT(read_file(corrected.folder() / "config.yaml"), Contains("device: auto"));
}

TEST_CASE("a folder that is cleared half is still known") {
  const auto config = tiny_config(2);
  TrainProgram program("half-cleared", config);
  REQUIRE(program.run().succeeded());
  const RunFolder folder(program.folder(), config);
  // Stands for a kill: a folder with something in it cannot be removed as a file.
  const fs::path log = folder.path() / "metrics.jsonl";
  fs::remove(log);
  fs::create_directories(log / "kept");
  CHECK_THROWS(folder.clear());
  CHECK_FALSE(fs::exists(folder.checkpoints()));
  CHECK_FALSE(folder.result());
  CHECK(fs::exists(folder.path() / "config.yaml"));
  CHECK(recorded_data(folder.path()) == DataFolder::open(data_path()).identity());
  fs::remove_all(log);
  folder.clear();
  CHECK(recorded_data(folder.path()).is_null());
  CHECK_FALSE(fs::exists(folder.path() / "config.yaml"));
}

TEST_CASE("a run goes on with the data that it began with, wherever they lie") {
  auto config = tiny_config(60);
  const fs::path here = scratch() / "moving-data";
  config.data.shards = here;
  fs::copy(data_path(), here, fs::copy_options::recursive);
  TrainProgram program("data", config);
  CHECK(program.run_until(10, SIGKILL).signal == SIGKILL);

  // Other data under the same path: half of the text.
  fs::rename(here, scratch() / "moved-data");
  const fs::path half = scratch() / "half.jsonl";
  {
    std::ofstream out(half);
    const auto texts = documents();
    for (size_t i = 0; i < texts.size(); i += 2) out << nlohmann::json{{"text", texts[i]}}.dump() << '\n';
  }
  DocumentReader reader({half});
  build_data(reader, {.tokenizer = scratch() / "tokenizer", .validation_per_mille = kValidationPerMille},
             here);
  const auto identity_there = DataFolder::open(scratch() / "moved-data").identity();
  const auto identity_here = DataFolder::open(here).identity();
  CHECK(program.run().status == 1);
  CHECK_THAT(program.log(), Contains("holds a run of other data than " + here.string()) &&
                                Contains("train is " + identity_there["train"].dump() + " there and " +
                                         identity_here["train"].dump() + " here"));

  config.data.shards = scratch() / "moved-data";
  TrainProgram moved("data", config);
  REQUIRE(moved.run().succeeded());
  CHECK_THAT(moved.log(), Contains("going on from"));

  config.data.shards = here;
  TrainProgram fresh("data", config);
  fresh.command().push_back("--fresh");
  REQUIRE(fresh.run().succeeded());
  const auto environment = nlohmann::json::parse(read_file(fresh.folder() / "environment.json"));
  CHECK(environment["data"] == identity_here);
}

TEST_CASE("an evaluation refuses data of another tokenizer") {
  TrainProgram program("evaluated", tiny_config(2));
  REQUIRE(program.run().succeeded());
  const fs::path text = scratch() / "text.jsonl";
  DocumentReader for_tokenizer({text});
  train_tokenizer(for_tokenizer, {.vocab_size = 300, .validation_per_mille = 0},
                  scratch() / "small-tokenizer");
  DocumentReader for_data({text});
  build_data(for_data, {.tokenizer = scratch() / "small-tokenizer"}, scratch() / "small-data");
  program.command() = {BOV_PROGRAM, "eval", program.folder(), "--data", scratch() / "small-data"};
  CHECK(program.run().status == 1);
  CHECK_THAT(program.log(),
             Contains("was trained with tokenizer") && Contains("but the data are of tokenizer"));
  program.command().back() = data_path();
  CHECK(program.run().succeeded());
}

TEST_CASE("a flipped byte of a shard does not train") {
  auto config = tiny_config(4);
  config.data.shards = scratch() / "flipped-data";
  fs::copy(data_path(), config.data.shards, fs::copy_options::recursive);
  std::fstream shard(fs::path(config.data.shards) / "train-00000.tokens",
                     std::ios::in | std::ios::out | std::ios::binary);
  shard.seekg(100);
  const char byte = static_cast<char>(shard.get());
  shard.seekp(100);
  shard.put(static_cast<char>(byte ^ 1));
  shard.close();
  TrainProgram program("flipped", config);
  CHECK(program.run().status == 1);
  CHECK_THAT(program.log(), Contains("train-00000.tokens: its checksum is"));
}

TEST_CASE("an evaluation that fails costs no training") {
  constexpr int64_t kSteps = 100;
  auto config = tiny_config(kSteps);
  config.evaluation.every = 0;
  config.checkpoint.every = 0;
  config.data.shards = scratch() / "lost-data";
  fs::copy(data_path(), config.data.shards, fs::copy_options::recursive);
  const fs::path validation = fs::path(config.data.shards) / "validation-00000.tokens";
  TrainProgram program("failing-evaluation", config);
  // A mapped file that shrinks ends the process at the first read beyond its end.
  const ChildExit exit = program.run([&](ChildProcess&) {
    const fs::path log = program.folder() / "metrics.jsonl";
    if (!fs::exists(log) || fs::file_size(log) == 0) return false;
    fs::resize_file(validation, 0);
    return true;
  });
  CHECK(exit.signal == SIGBUS);
  CHECK(latest_checkpoint(program.folder() / "checkpoints").path ==
        program.folder() / "checkpoints" / ("step-" + std::to_string(kSteps)));

  fs::copy_file(data_path() / "validation-00000.tokens", validation, fs::copy_options::overwrite_existing);
  REQUIRE(program.run().succeeded());
  CHECK(nlohmann::json::parse(read_file(program.folder() / "result.json")).contains("validation_bpb"));
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
