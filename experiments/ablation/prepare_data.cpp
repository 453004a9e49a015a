#include "experiments/ablation/prepare_data.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "bov/io/atomic_file.h"
#include "experiments/ablation/child_process.h"
#include "experiments/config/grid_config.h"
#include "experiments/data/data_builder.h"
#include "experiments/data/document_reader.h"
#include "experiments/data/text_hash.h"
#include "experiments/file_lock.h"
#include "experiments/tokenizer/token_table.h"
#include "experiments/tokenizer/tokenizer_training.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStampFile = "prepared.json";
constexpr std::chrono::milliseconds kPollInterval{100};

// The quick corpus has a few hundred documents: one in a hundred would be too few to measure on.
int validation_per_mille(const std::string& corpus_profile) {
  return corpus_profile == "quick" ? 50 : 10;
}

nlohmann::json read_stamp(const fs::path& folder) {
  std::ifstream in(folder / kStampFile);
  return nlohmann::json::parse(in, nullptr, false);
}

void write_stamp(const fs::path& folder, const nlohmann::json& inputs) {
  atomic_write_text(folder / kStampFile, inputs.dump(2) + "\n");
}

std::vector<std::string> text_files(const fs::path& folder) {
  std::vector<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::path name = entry.path().filename();
    if (name.extension() == ".gz") name = name.stem();
    if (name.extension() == ".txt" || name.extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Changes with any byte of the corpus, not with its place.
std::string corpus_hash(const fs::path& folder) {
  std::string hashes;
  for (const std::string& file : text_files(folder)) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    hashes += fs::relative(file, folder).string() + " " + std::to_string(text_hash(text.view())) + "\n";
  }
  return std::to_string(text_hash(hashes));
}

// Passes on the whole lines that were added to a log since the last call.
class LogFollower {
 public:
  explicit LogFollower(fs::path file) : file_(std::move(file)) {}

  void pass_on(Progress& progress) {
    std::ifstream in(file_);
    in.seekg(offset_);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      offset_ = in.tellg();
      last_line_ = line;
      progress.message(line);
    }
  }
  const std::string& last_line() const { return last_line_; }

 private:
  fs::path file_;
  std::streamoff offset_ = 0;
  std::string last_line_;
};

void fetch_corpus(const PrepareConfig& prepare,
                  const std::vector<std::string>& fetch_command,
                  Progress& progress) {
  const fs::path folder = prepare.corpus_folder;
  const nlohmann::json inputs{{"profile", prepare.corpus}};
  const bool is_there = !text_files(folder).empty();
  if (is_there && (!fs::exists(folder / kStampFile) || read_stamp(folder) == inputs)) {
    progress.message("corpus: " + folder.string() + " is there");
    return;
  }
  if (is_there) {
    throw std::runtime_error("prepare: " + folder.string() + " was made from " + read_stamp(folder).dump() +
                             ", but the grid asks for " + inputs.dump() +
                             "; remove it or name another corpus_folder");
  }
  fs::create_directories(folder);
  progress.message("corpus: fetching the " + prepare.corpus + " profile into " + folder.string());
  const fs::path log = folder / "fetch.log";
  fs::remove(log);
  ChildOptions options{.command = fetch_command, .environment = {}, .log = log};
  options.command.insert(options.command.end(), {prepare.corpus, folder.string()});
  ChildProcess process(options);
  LogFollower follower(log);
  while (!process.poll()) {
    follower.pass_on(progress);
    std::this_thread::sleep_for(kPollInterval);
  }
  follower.pass_on(progress);
  if (!process.poll()->succeeded()) {
    throw std::runtime_error("prepare: " + fetch_command.front() + " failed: " + follower.last_line() + " (" +
                             log.string() + ")");
  }
  if (text_files(folder).empty())
    throw std::runtime_error("prepare: no .txt or .jsonl file came to " + folder.string());
  write_stamp(folder, inputs);
}

std::string count_text(int64_t count) {
  return format_count(static_cast<double>(count));
}

std::string skipped_text(const ReadCounts& counts) {
  return "skipped " + count_text(counts.empty) + " empty and " + count_text(counts.invalid) +
         " invalid documents";
}

// Makes `folder` with `make` unless it was made from the same inputs; what `make` leaves behind when it is killed has
// another name.
void make_folder(const std::string& what,
                 const fs::path& folder,
                 const nlohmann::json& inputs,
                 Progress& progress,
                 const std::function<void(const fs::path&)>& make) {
  const bool made_by_hand = fs::exists(folder) && !fs::exists(folder / kStampFile);
  if (made_by_hand || read_stamp(folder) == inputs) {
    progress.message(what + ": " + folder.string() +
                     (made_by_hand ? " was made by hand and is used as it is" : " is there"));
    return;
  }
  progress.message(what + ": making " + folder.string());
  const fs::path building = folder.string() + ".building";
  fs::remove_all(building);
  fs::create_directories(building.parent_path());
  make(building);
  write_stamp(building, inputs);
  fs::remove_all(folder);
  fs::rename(building, folder);
}

void make_tokenizer(const PrepareConfig& prepare,
                    int64_t vocab_size,
                    const std::string& corpus,
                    Progress& progress) {
  const int per_mille = validation_per_mille(prepare.corpus);
  const nlohmann::json inputs{
      {"corpus", corpus}, {"vocab_size", vocab_size}, {"validation_per_mille", per_mille}};
  make_folder("tokenizer", prepare.tokenizer, inputs, progress, [&](const fs::path& folder) {
    DocumentReader documents(text_files(prepare.corpus_folder));
    TokenizerTrainingOptions options;
    options.vocab_size = static_cast<int32_t>(vocab_size);
    options.validation_per_mille = per_mille;
    const TokenizerTrainingReport report = train_tokenizer(documents, options, folder);
    progress.message("tokenizer: " + std::to_string(vocab_size) + " entries learned from " +
                     count_text(report.documents) + " documents, " + count_text(report.bytes) + " bytes; " +
                     skipped_text(report.read));
  });
}

void build_shards(const PrepareConfig& prepare,
                  const fs::path& shards,
                  const std::string& corpus,
                  Progress& progress) {
  const int per_mille = validation_per_mille(prepare.corpus);
  const nlohmann::json inputs{{"corpus", corpus},
                              {"tokenizer", std::to_string(TokenTable::load(prepare.tokenizer).hash())},
                              {"validation_per_mille", per_mille}};
  make_folder("shards", shards, inputs, progress, [&](const fs::path& folder) {
    DocumentReader documents(text_files(prepare.corpus_folder));
    DataBuildOptions options;
    options.tokenizer = prepare.tokenizer;
    options.validation_per_mille = per_mille;
    options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const nlohmann::json manifest = build_data(documents, options, folder);
    for (const char* split : {"train", "validation"}) {
      const auto& counts = manifest.at(split);
      progress.message(std::string("shards: ") + split + " " + count_text(counts.at("documents")) +
                       " documents, " + count_text(counts.at("bytes")) + " bytes, " +
                       count_text(counts.at("tokens")) + " tokens");
    }
    progress.message("shards: " + skipped_text(documents.counts()));
  });
}

}  // namespace

void set_data_folder(GridConfig& grid, const fs::path& folder) {
  const auto move = [&folder](std::string& path) { path = folder / path; };  // an absolute path stays
  move(grid.base.data.shards);
  for (RunConfig& row : grid.rows) move(row.data.shards);
  if (grid.prepare) {
    move(grid.prepare->corpus_folder);
    move(grid.prepare->tokenizer);
  }
}

std::vector<std::string> default_fetch_command() {
  return {BOV_FETCH_CORPUS};
}

void prepare_data(const GridConfig& grid, const std::vector<std::string>& fetch_command, Progress& progress) {
  if (!grid.prepare) return;
  const PrepareConfig& prepare = *grid.prepare;
  const fs::path shards = grid.base.data.shards;
  const fs::path folder = fs::absolute(shards).parent_path();
  fs::create_directories(folder);
  FileLock lock(folder / "prepare.lock");
  if (!lock.try_lock()) {
    progress.message("another process prepares the data in " + folder.string() + "; waiting for it");
    lock.lock();
  }
  fetch_corpus(prepare, fetch_command, progress);
  const std::string corpus = corpus_hash(prepare.corpus_folder);
  make_tokenizer(prepare, grid.base.model.vocab_size, corpus, progress);
  build_shards(prepare, shards, corpus, progress);
}

}  // namespace bov::experiments
