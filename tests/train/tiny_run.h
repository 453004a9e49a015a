#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "experiments/ablation/child_process.h"
#include "experiments/config/yaml_config.h"
#include "experiments/data/data_builder.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "support/catch.h"

/// A tiny model on a tiny text, and the program that trains it.
namespace bov::experiments {

namespace fs = std::filesystem;

inline constexpr int kValidationPerMille = 100;
inline constexpr int32_t kVocabulary = 320;

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

inline const fs::path& scratch() {
  static const ScratchFolder folder;
  return folder.path();
}

/// Sentences with a grammar that a small model can learn, non-ASCII words included.
inline std::vector<std::string> documents() {
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
inline const fs::path& data_path() {
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

inline RunConfig tiny_config(int64_t steps) {
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

inline std::string read_file(const fs::path& file) {
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

}  // namespace bov::experiments
