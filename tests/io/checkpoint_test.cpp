#include "bov/io/checkpoint.h"

#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "bov/io/atomic_file.h"
#include "support/catch.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using testing::bitwise_equal;
using testing::FileSizeLimit;
using testing::TemporaryFolder;

CheckpointContents contents_of_step(int64_t step, int64_t size = 40) {
  CheckpointContents contents;
  contents.step = step;
  contents.model = {{"embedding", at::full({size, 10}, static_cast<double>(step))}, {"head", at::arange(7)}};
  contents.optimizer = {{"head.exp_avg", at::full({7}, 0.5 * static_cast<double>(step))}};
  contents.state = {{"generator.cpu", at::arange(16, at::kByte)}};
  contents.metadata = R"({"zeta":1,"alpha":[0.1,"text"]})";
  return contents;
}

void check_equal(const TensorMap& found, const TensorMap& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, tensor] : expected) CHECK(bitwise_equal(found.at(name), tensor));
}

void check_equal(const CheckpointContents& found, const CheckpointContents& expected) {
  CHECK(found.step == expected.step);
  CHECK(found.metadata == expected.metadata);
  check_equal(found.model, expected.model);
  check_equal(found.optimizer, expected.optimizer);
  check_equal(found.state, expected.state);
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_in_file(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_text(path);
  const size_t position = text.find(from);
  REQUIRE(position != std::string::npos);
  text.replace(position, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

void flip_last_byte(const fs::path& path) {
  std::string bytes = read_text(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("a checkpoint's tensors may be made while they are written") {
  const TemporaryFolder folder;
  const auto ones = [](int64_t begin, int64_t end) { return at::ones({end - begin, 4}); };
  CheckpointContents contents = contents_of_step(3);
  CheckpointContents expected = contents;
  contents.model_rows["table"] = {at::kFloat, {6, 4}, ones};
  contents.optimizer_rows["table.exp_avg"] = {at::kFloat, {6, 4}, ones};
  expected.model["table"] = expected.optimizer["table.exp_avg"] = at::ones({6, 4});
  check_equal(load_checkpoint(save_checkpoint(folder.path(), contents)), expected);
  contents.optimizer.clear();
  expected.optimizer = {{"table.exp_avg", at::ones({6, 4})}};
  check_equal(load_checkpoint(save_checkpoint(folder.path(), contents)), expected);
}

TEST_CASE("a checkpoint comes back bit by bit, with its metadata") {
  const TemporaryFolder folder;
  const fs::path checkpoints = folder / "run/checkpoints";
  const fs::path path = save_checkpoint(checkpoints, contents_of_step(12));
  CHECK(path == checkpoints / "step-12");
  CHECK(entries(checkpoints) == Names{"step-12"});
  CHECK(entries(path) ==
        Names{"manifest.json", "model.safetensors", "optimizer.safetensors", "state.safetensors"});
  check_equal(load_checkpoint(path), contents_of_step(12));
}

TEST_CASE("a checkpoint of a model alone has no other file and needs none") {
  const TemporaryFolder folder;
  CheckpointContents contents = contents_of_step(0);
  const fs::path whole = save_checkpoint(folder.path(), contents_of_step(1));
  fs::remove(whole / "optimizer.safetensors");
  check_equal(load_checkpoint(whole, CheckpointParts::model).model, contents_of_step(1).model);
  CHECK(load_checkpoint(whole, CheckpointParts::model).state.empty());

  contents.optimizer.clear();
  contents.state.clear();
  const fs::path path = save_checkpoint(folder.path(), contents);
  CHECK(entries(path) == Names{"manifest.json", "model.safetensors"});
  check_equal(load_checkpoint(path), contents);
}

TEST_CASE("the manifest holds the CRC-32 of each file") {
  const TemporaryFolder folder;
  CheckpointContents contents = contents_of_step(3);
  contents.model = {{"w", at::ones({1}, at::kByte)}};
  const fs::path path = save_checkpoint(folder.path(), contents);
  // zlib.crc32 of Python over the file's bytes: 8-byte size 56, the padded header, one byte 1.
  CHECK(fs::file_size(path / "model.safetensors") == 65);
  CHECK_THAT(read_text(path / "manifest.json"), Contains("\"crc32\": \"3660c165\""));
}

TEST_CASE("saving a step again replaces it") {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), contents_of_step(5));
  CheckpointContents other = contents_of_step(5);
  other.model["embedding"].zero_();
  other.state.clear();
  const fs::path path = save_checkpoint(folder.path(), other);
  CHECK(entries(folder.path()) == Names{"step-5"});
  check_equal(load_checkpoint(path), other);
}

TEST_CASE("loading a damaged checkpoint names the file, what was found and what was expected") {
  const TemporaryFolder folder;
  const fs::path path = save_checkpoint(folder.path(), contents_of_step(2));
  const fs::path model = path / "model.safetensors";
  const fs::path manifest = path / "manifest.json";
  const auto load_error_holds = [&](const auto&... parts) {
    CHECK_THROWS_WITH(load_checkpoint(path), (Contains(parts) && ...));
  };

  SECTION("truncated") {
    const auto bytes = fs::file_size(model);
    fs::resize_file(model, bytes - 3);
    load_error_holds(model.string(), "has " + std::to_string(bytes - 3) + " bytes",
                     "the manifest says " + std::to_string(bytes));
  }
  SECTION("one bit differs") {
    flip_last_byte(model);
    load_error_holds(model.string(), "is damaged: its CRC-32 is ");
  }
  SECTION("missing file") {
    fs::remove(path / "optimizer.safetensors");
    load_error_holds((path / "optimizer.safetensors").string(), "is missing", "No such file or directory");
  }
  SECTION("missing manifest") {
    fs::remove(manifest);
    load_error_holds(manifest.string(), "is missing");
  }
  SECTION("manifest cut short") {
    fs::resize_file(manifest, fs::file_size(manifest) / 2);
    load_error_holds(manifest.string(), "is damaged");
  }
  SECTION("manifest without a step") {
    replace_in_file(manifest, "\"step\"", "\"stop\"");
    load_error_holds(manifest.string(), "is damaged", "'step'");
  }
  SECTION("another format version") {
    replace_in_file(manifest, "\"format_version\": 1", "\"format_version\": 2");
    load_error_holds(manifest.string(), "has format_version 2; this program reads 1");
  }
  SECTION("another program's manifest") {
    replace_in_file(manifest, "bov-checkpoint", "other");
    load_error_holds(manifest.string(), "has format \"other\"; expected \"bov-checkpoint\"");
  }
  SECTION("no model in the manifest") {
    replace_in_file(manifest, "model.safetensors", "m.safetensors");
    load_error_holds(path.string(), "lists no model.safetensors");
  }
}

TEST_CASE("a full disk or a folder that cannot be made loses no earlier checkpoint and leaves nothing") {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), contents_of_step(1));
  // 400 kB of model against a limit of 64 kB a file.
  const CheckpointContents large = contents_of_step(2, 10000);
  {
    const FileSizeLimit full(64 << 10);
    CHECK_THROWS_WITH(save_checkpoint(folder.path(), large),
                      Contains("cannot save checkpoint '" + (folder / "step-2").string() + "'") &&
                          Contains("File too large") && Contains("earlier checkpoints are untouched"));
    CheckpointContents same_step = large;
    same_step.step = 1;
    CHECK_THROWS_WITH(save_checkpoint(folder.path(), same_step), Contains("File too large"));
  }
  CHECK(entries(folder.path()) == Names{"step-1"});
  check_equal(load_checkpoint(folder / "step-1"), contents_of_step(1));

  std::ofstream(folder / "file") << "x";
  CHECK_THROWS_WITH(save_checkpoint(folder / "file", contents_of_step(3)), Contains("Not a directory"));
  CHECK(read_text(folder / "file") == "x");
}

TEST_CASE("bad contents are refused and leave nothing") {
  const TemporaryFolder folder;
  CheckpointContents contents = contents_of_step(1);
  contents.metadata = "{no json";
  CHECK_THROWS_WITH(save_checkpoint(folder.path(), contents), Contains("metadata is no JSON"));
  contents = contents_of_step(1);
  contents.model["bad"] = at::Tensor();
  CHECK_THROWS_WITH(save_checkpoint(folder.path(), contents), Contains("'bad' is undefined"));
  CHECK_THROWS_WITH(save_checkpoint(folder.path(), contents_of_step(-1)), Contains("step is -1"));
  CHECK(entries(folder.path()).empty());
}

TEST_CASE("a process killed while it saves leaves the earlier checkpoint as the latest") {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), contents_of_step(1));
  const CheckpointContents large = contents_of_step(2, 10000);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The signal of the limit kills the child in the middle of the model's file.
    const rlimit no_core{0, 0};
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
    save_checkpoint(folder.path(), large);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGXFSZ);
  const std::string temporary = "step-2.tmp-" + std::to_string(child);
  CHECK(entries(folder.path()) == Names{"step-1", temporary});

  const LatestCheckpoint latest = latest_checkpoint(folder.path());
  REQUIRE(latest.path);
  CHECK(*latest.path == folder / "step-1");
  REQUIRE(latest.skipped.size() == 1);
  CHECK(latest.skipped[0].path == folder / temporary);
  CHECK_THAT(latest.skipped[0].reason, Contains("unfinished") && Contains(std::to_string(child)));
  check_equal(load_checkpoint(*latest.path), contents_of_step(1));

  CHECK(prune_checkpoints(folder.path(), 1) == std::vector<fs::path>{folder / temporary});
  CHECK(entries(folder.path()) == Names{"step-1"});
}

TEST_CASE("the latest checkpoint is the highest intact step, and the skipped ones are named") {
  const TemporaryFolder folder;
  CHECK_FALSE(latest_checkpoint(folder / "none").path);
  CHECK_FALSE(latest_checkpoint(folder.path()).path);
  for (const int64_t step : {9, 10, 11, 100}) save_checkpoint(folder.path(), contents_of_step(step));
  fs::create_directory(folder / "step-x");
  fs::create_directory(folder / "other");
  atomic_write_text(folder / "step-7", "a file");
  CHECK(*latest_checkpoint(folder.path()).path == folder / "step-100");
  CHECK(latest_checkpoint(folder.path()).skipped.empty());

  flip_last_byte(folder / "step-100/optimizer.safetensors");
  fs::remove(folder / "step-11/manifest.json");
  const LatestCheckpoint latest = latest_checkpoint(folder.path());
  CHECK(*latest.path == folder / "step-10");
  REQUIRE(latest.skipped.size() == 2);
  CHECK(latest.skipped[0].path == folder / "step-100");
  CHECK_THAT(latest.skipped[0].reason, Contains("step-100/optimizer.safetensors") && Contains("CRC-32"));
  CHECK(latest.skipped[1].path == folder / "step-11");
  CHECK_THAT(latest.skipped[1].reason, Contains("step-11/manifest.json"));
}

TEST_CASE("pruning keeps the newest complete checkpoints, and what others are writing") {
  const TemporaryFolder folder;
  for (const int64_t step : {8, 9, 10, 11, 12}) save_checkpoint(folder.path(), contents_of_step(step));
  fs::remove(folder / "step-12/model.safetensors");
  // Process 1 always runs; our own leftover is stale, because we are not saving.
  fs::create_directory(folder / "step-13.tmp-1");
  const std::string ours = "step-13.tmp-" + std::to_string(::getpid());
  fs::create_directory(folder / ours);
  const auto removed = prune_checkpoints(folder.path(), 2);
  CHECK(removed == std::vector<fs::path>{folder / ours, folder / "step-9", folder / "step-8"});
  CHECK(entries(folder.path()) == Names{"step-10", "step-11", "step-12", "step-13.tmp-1"});
  CHECK(prune_checkpoints(folder.path(), 5).empty());
  CHECK_THROWS_WITH(prune_checkpoints(folder.path(), 0), Contains("to keep: 0; expected at least 1"));
  CHECK(prune_checkpoints(folder / "none", 1).empty());
}

}  // namespace
}  // namespace bov
