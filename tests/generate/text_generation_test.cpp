#include "experiments/generate/text_generation.h"

#include <fstream>
#include <set>

#include "bov/io/checkpoint.h"
#include "bov/io/module_state.h"
#include "bov/value/presets.h"
#include "data/test_text.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/generate/utf8_stream.h"
#include "experiments/report/memory_report.h"
#include "experiments/staged_folder.h"
#include "experiments/tokenizer/tokenizer_files.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "experiments/train/run_folder.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace bov::experiments {
namespace {

using testing::TemporaryFolder;

TEST_CASE("a stream gives whole characters, and loses no byte") {
  const std::string text = "aé€😀b";
  Utf8Stream stream;
  std::vector<std::string> parts;
  for (const char byte : text) {
    if (std::string part = stream.push(std::string(1, byte)); !part.empty()) parts.push_back(part);
  }
  CHECK(parts == std::vector<std::string>{"a", "é", "€", "😀", "b"});
  CHECK(stream.push("\xe2\x82") == "");
  CHECK(stream.finish() == "\xe2\x82");
  CHECK(stream.finish() == "");
  // Bytes that no character can begin or go on with do not wait for more.
  CHECK(stream.push("\xff") == "\xff");
  CHECK(stream.push("\x80") == "\x80");
  CHECK(stream.push("\xc3") == "");
  CHECK(stream.push("x") == "\xc3x");
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = testing::random_bytes(random, 50);
    std::string given;
    for (size_t start = 0; start < bytes.size();) {
      const size_t count = 1 + random() % 5;
      given += stream.push(std::string_view(bytes).substr(start, count));
      start += count;
    }
    CHECK(given + stream.finish() == bytes);
  }
}

/// A run with a checkpoint of random parameters, and its data's tokenizer.
class SmallRun {
 public:
  explicit SmallRun(const char* preset = "bov") {
    testing::write_file(folder_ / "text.txt", testing::random_text(1, 4000));
    DocumentReader documents({(folder_ / "text.txt").string()});
    train_tokenizer(documents, {.vocab_size = 400, .validation_per_mille = 0}, folder_ / "shards/tokenizer");
    RunConfig config;
    config.name = "small";
    config.value = value_preset(preset);
    config.model.n_layer = 3, config.model.n_embd = 32, config.model.n_head = config.model.n_kv_head = 2;
    config.model.sequence_length = 64, config.model.vocab_size = 400;
    config.data.shards = (folder_ / "shards").string();
    config.train.device = "cpu";
    config.budget.steps = 1;
    std::filesystem::create_directories(path());
    testing::write_file(path() / "config.yaml", write_run_config(config));
    GPT model(to_gpt_options(config, torch::kCPU));
    torch::manual_seed(4);
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.normal_(0, 0.3);
    save_checkpoint(path() / "checkpoints", {.step = 7, .model = module_state(*model)});
  }
  std::filesystem::path path() const { return folder_ / "run"; }
  std::filesystem::path shards() const { return folder_ / "shards"; }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("text goes on the same wherever the tables are") {
  const SmallRun small;
  const RunCheckpoint run = find_checkpoint(small.path());
  CHECK(run.checkpoint.filename() == "step-7");
  CHECK(find_checkpoint(run.checkpoint).checkpoint == run.checkpoint);
  CHECK(load_run_model(run, torch::kCPU).step == 7);
  const Tokenizer tokenizer = run_tokenizer(run, std::nullopt);
  GenerateOptions options;
  options.samples = 2;
  options.max_new_tokens = 60;
  std::vector<std::string> expected;
  for (const auto place : {TablePlace::device, TablePlace::host, TablePlace::file}) {
    DecodingModel loaded = load_decoding_model(run, torch::kCPU, place);
    Decoder decoder(loaded.model, {}, loaded.banks);
    std::vector<std::string> streamed(2);
    const TextGeneration result = generate_text(decoder, tokenizer, "the bank of ", options,
                                                [&](int64_t sample, std::string_view text) {
                                                  streamed[sample] += text;
                                                  return true;
                                                });
    CHECK(streamed == result.texts);
    CHECK(result.texts[0] != result.texts[1]);
    if (expected.empty()) expected = result.texts;
    CHECK(result.texts == expected);
    for (size_t i = 0; i < 2; ++i) {
      std::vector<int32_t> ids(result.generation.sequences[i].begin(), result.generation.sequences[i].end());
      CHECK(tokenizer.decode(ids) == result.texts[i]);
    }
    const BankBytes bytes = decoder.banks().bytes();
    // One table of 400 rows of 32 floats: the last third of three layers is one.
    CHECK((place == TablePlace::device ? bytes.device
           : place == TablePlace::host ? bytes.host
                                       : bytes.file) == 400 * 32 * 4);
    const auto json = to_json(result.generation, bytes);
    CHECK(json["decode_tokens"] == 2 * 59);
    CHECK(json["cache_bytes"]["values"] == result.generation.cache.values);
    CHECK(to_text(result.generation, bytes).find("118 decoded at") != std::string::npos);
  }
}

TEST_CASE("text generation says what is wrong with its input") {
  const SmallRun small;
  const RunCheckpoint run = find_checkpoint(small.path());
  const Tokenizer tokenizer = run_tokenizer(run, std::nullopt);
  DecodingModel loaded = load_decoding_model(run, torch::kCPU, TablePlace::device);
  Decoder decoder(loaded.model, {}, loaded.banks);
  CHECK_THROWS_WITH(generate_text(decoder, tokenizer, "", {}), Catch::Contains("the prompt is empty"));
  CHECK_THROWS_WITH(generate_text(decoder, tokenizer, "the value of the bank", {.max_length = 3}),
                    Catch::Contains("expected fewer than max_length = 3"));
  CHECK_THROWS_WITH(run_tokenizer(run, small.path()), Catch::Contains("tokenizer.json"));
  CHECK(!recorded_tokenizer(small.path()));
  const auto record = [&](const std::string& environment) {
    testing::write_file(small.path() / "environment.json", environment);
  };
  for (const char* damaged : {"", "[1]", R"({"data": )", R"({"data": 5})", R"({"data": {"tokenizer": 7}})"}) {
    record(damaged);
    INFO(damaged);
    CHECK_THROWS_WITH(run_tokenizer(run, std::nullopt), Catch::Contains("environment.json is damaged: "));
  }
  for (const char* without : {"{}", R"({"data": null})", R"({"data": {}})"}) {
    record(without);
    CHECK(!recorded_tokenizer(small.path()));
    CHECK(run_tokenizer(run, std::nullopt).hash() == tokenizer.hash());
  }
  record(R"({"data": {"tokenizer": "0123456789abcdef"}})");
  CHECK_THROWS_WITH(
      run_tokenizer(run, std::nullopt),
      Catch::Contains("the run was trained with 0123456789abcdef") && Catch::Contains("--tokenizer"));
  record(R"({"data": {"tokenizer": ")" + hash_text(tokenizer.hash()) + R"("}})");
  CHECK(run_tokenizer(run, small.shards() / "tokenizer").hash() == tokenizer.hash());
  RunCheckpoint narrow = run;
  narrow.config.model.vocab_size = 399;
  CHECK_THROWS_WITH(run_tokenizer(narrow, std::nullopt), Catch::Contains("400 tokens, the model only 399"));
  std::filesystem::remove_all(small.path() / "checkpoints");
  CHECK_THROWS_WITH(find_checkpoint(small.path()), Catch::Contains("no checkpoint yet"));
}

TEST_CASE("models without a table in place of values have none on the host or in the file") {
  for (const char* preset : {"standard", "bov_add", "svformer"}) {
    const SmallRun small(preset);
    const RunCheckpoint run = find_checkpoint(small.path());
    for (const auto place : {TablePlace::host, TablePlace::file}) {
      CHECK_THROWS_WITH(load_decoding_model(run, torch::kCPU, place),
                        Catch::Contains("no table is read") && Catch::Contains("expected --tables device"));
    }
    CHECK(load_decoding_model(run, torch::kCPU, TablePlace::device).banks->bytes().device == 0);
  }
}

TEST_CASE("a staged folder appears when it is finished, and not before") {
  const TemporaryFolder folder;
  const auto target = folder.path() / "out";
  {
    const StagedFolder staged(target.string() + "/");
    testing::write_file(staged.path() / "text.txt", "x");
    CHECK(!std::filesystem::exists(target));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  StagedFolder staged(target);
  testing::write_file(staged.path() / "text.txt", "x");
  staged.publish();
  CHECK(std::filesystem::exists(target / "text.txt"));
  CHECK(!std::filesystem::exists(staged.path()));
  CHECK_THROWS_WITH(StagedFolder(target), Catch::Contains("out exists; choose another name"));
  CHECK_THROWS_WITH(StagedFolder(folder.path() / "none/out"),
                    Catch::Contains("there is no folder") && Catch::Contains("/none"));
  CHECK_THROWS_WITH(StagedFolder(""), Catch::Contains("is empty"));
}

TEST_CASE("a staged folder takes away what killed processes left of it, and nothing else") {
  const TemporaryFolder folder;
  // No process has an id above 2^22, the first one always runs.
  for (const char* name :
       {"out.tmp-1073741824", "out.tmp-1", "out.tmp-old", "out.tmp-", "output.tmp-1073741824"}) {
    std::filesystem::create_directory(folder.path() / name);
    testing::write_file(folder.path() / name / "text.txt", "x");
  }
  { const StagedFolder staged(folder.path() / "out"); }
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.insert(entry.path().filename());
  CHECK(left == std::set<std::string>{"out.tmp-1", "out.tmp-old", "out.tmp-", "output.tmp-1073741824"});
}

TEST_CASE("contexts are read as numbers, lists and doubling ranges") {
  CHECK(parse_contexts({"2048"}) == std::vector<int64_t>{2048});
  CHECK(parse_contexts({"1K..8K"}) == std::vector<int64_t>{1024, 2048, 4096, 8192});
  CHECK(parse_contexts({"16000", "1M"}) == std::vector<int64_t>{16000, 1 << 20});
  CHECK(parse_contexts({"1K..3K", "5"}) == std::vector<int64_t>{1024, 2048, 5});
  for (const char* text : {"", "K", "1k", "1K..", "8K..1K", "1,", "-1", "0", "99999999999M", "1.5K"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_contexts({"1K", text}), Catch::Contains("expected tokens as 2048, 16K or 1M"));
  }
}

TEST_CASE("the memory report holds the library's numbers") {
  GPTOptions options;
  options.value = value_preset("bov");
  const MemoryReport report =
      report_memory("paper", "cpu", options, LongWindow::unlimited, {16'000, 1'000'000}, {1, 8});
  CHECK(report.points.size() == 4);
  const MemoryPoint& point = report.points[1];
  CHECK(point.with_device_tables() ==
        point.memory.cache.values + point.memory.cache.token_ids + 4 * 32768 * 768 * 4);
  const auto json = to_json(report);
  CHECK(json["points"][1]["figure_5a_fraction"].get<double>() == Approx(0.1612).margin(0.0001));
  CHECK(json["device"] == "cpu");
  const int64_t first = break_even(options, LongWindow::unlimited, 1).device->first;
  CHECK(json["break_even"][0]["device"]["first_tokens"] == first);
  CHECK(json["break_even"][0]["device"]["last_tokens"].is_null());
  const std::string text = to_text(report);
  CHECK(text.find("16.12 %") != std::string::npos);
  CHECK(text.find(std::to_string(first) + " on") != std::string::npos);
  const MemoryReport trained = report_memory("paper", "cpu", options, LongWindow::trained, {1000}, {1});
  CHECK(to_json(trained)["break_even"][0]["device"].is_null());
  CHECK(to_text(trained).find("never") != std::string::npos);
  CHECK(to_text(trained).find("1 to ") != std::string::npos);
}

}  // namespace
}  // namespace bov::experiments
