#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ablation/fake_grid.h"
#include "experiments/ablation/cuda_devices.h"
#include "experiments/ablation/grid_folder.h"
#include "experiments/ablation/prepare_data.h"
#include "experiments/ablation/run_selection.h"
#include "experiments/config/grid_config.h"
#include "support/temporary_folder.h"

// What is settled before the first run of a grid: which runs, on which devices, in which folder, on which data.
namespace bov::experiments {
namespace {

using bov::testing::TemporaryFolder;

GridConfig grid_of(const std::string& name,
                   const std::vector<std::string>& rows,
                   std::vector<int64_t> seeds) {
  GridConfig grid;
  grid.name = name;
  grid.base.budget.steps = 1;
  for (const std::string& row : rows) {
    grid.rows.push_back(grid.base);
    grid.rows.back().name = row;
  }
  grid.baseline = rows.front();
  grid.seeds = std::move(seeds);
  return grid;
}

}  // namespace

TEST_CASE("Shards cover every run exactly once and keep the order") {
  FakeGrid grid({"a", "b", "c", "d", "e"}, {1, 2, 3});
  std::multiset<std::string> seen;
  for (int64_t index = 1; index <= 4; ++index) {
    for (const PlannedRun& run : select_runs(grid.plan(), {{}, {}, {index, 4}})) seen.insert(run.folder);
  }
  std::multiset<std::string> expected;
  for (const PlannedRun& run : grid.plan().runs) expected.insert(run.folder);
  CHECK(seen == expected);
  CHECK(seen.size() == 15);

  const auto only = select_runs(grid.plan(), {{"d", "b"}, {}, {}});
  REQUIRE(only.size() == 6);
  CHECK(run_label(grid.plan(), only[0]) == "b seed 1");
  CHECK(run_label(grid.plan(), only[1]) == "d seed 1");
  CHECK(run_label(grid.plan(), only[2]) == "b seed 2");
  const auto seeds = select_runs(grid.plan(), {{"d", "b"}, {3}, {2, 2}});
  REQUIRE(seeds.size() == 1);
  CHECK(run_label(grid.plan(), seeds[0]) == "d seed 3");
  CHECK_THROWS_WITH(select_runs(grid.plan(), {{"f"}, {}, {}}),
                    Catch::Contains("no row \"f\"; its rows are a, b, c, d, e"));
}

TEST_CASE("A shard is i/n with i between 1 and n") {
  CHECK(parse_shard("2/4").index == 2);
  CHECK(parse_shard("2/4").count == 4);
  for (const char* text : {"", "2", "0/4", "5/4", "2/", "/4", "2/4x", "a/b", "-1/2"}) {
    CHECK_THROWS_WITH(parse_shard(text), Catch::Contains("expected i/n"));
  }
}

TEST_CASE("A device is the index of a GPU that exists, as this process counts them") {
  using Devices = std::vector<std::string>;
  CHECK(visible_cuda_devices({"2", "0"}, 4, nullptr) == Devices{"2", "0"});
  CHECK(visible_cuda_devices({"1", "0"}, 2, "6,GPU-1f") == Devices{"GPU-1f", "6"});
  for (const std::string text : {"", "x", "-1", "4", "1x", " 1", "99999999999999999999"}) {
    CHECK_THROWS_WITH(visible_cuda_devices({"0", text}, 4, nullptr),
                      Catch::Contains("--devices names \"" + text +
                                      "\"; LibTorch sees 4 CUDA devices, "
                                      "expected indices from 0 to 3"));
  }
  CHECK_THROWS_WITH(visible_cuda_devices({"0"}, 0, nullptr), Catch::EndsWith("LibTorch sees 0 CUDA devices"));
  CHECK_THROWS_WITH(visible_cuda_devices({"1", "0", "1"}, 2, nullptr), Catch::Contains("names 1 twice"));
  CHECK(visible_cuda_devices({}).empty());
}

TEST_CASE("A grid goes on in its folder with all that is there, and another grid is refused") {
  const TemporaryFolder folder;
  const fs::path root = folder / "grid";
  const auto go_on = [&](const GridConfig& grid) { return go_on_in_folder(grid, "new.yaml", root); };
  const GridConfig first = grid_of("first", {"a", "b"}, {1, 2});
  CHECK(go_on(first) == first);
  CHECK_FALSE(fs::exists(root));
  join_grid_folder(first, "new.yaml", root);
  CHECK(go_on(first) == first);
  CHECK(go_on(grid_of("first", {"a", "b"}, {3, 1})).seeds == std::vector<int64_t>{1, 2, 3});
  CHECK(go_on(grid_of("first", {"b", "c", "a"}, {1, 2})).rows.size() == 3);
  const std::string there = (root / "grid.yaml").string();
  CHECK_THROWS_WITH(go_on(grid_of("second", {"a", "b"}, {1})),
                    Catch::Contains(there + " is the grid \"first\", and new.yaml the grid \"second\"; "
                                            "choose another --out"));
  CHECK_THROWS_WITH(go_on(grid_of("first", {"c"}, {1})),
                    Catch::Contains(there + " has rows that new.yaml lacks: a, b; choose another --out"));
  write(root / "grid.yaml", "rows: 3\n");
  CHECK_THROWS_WITH(go_on(first), Catch::Contains(there + ":1"));
}

TEST_CASE("Processes that begin in one folder at the same time lose no seed") {
  const TemporaryFolder folder;
  const std::vector<int64_t> all{1, 2, 3, 4};
  for (int round = 0; round < 20; ++round) {
    const fs::path root = folder / ("grid-" + std::to_string(round));
    int gate[2];  // a pipe: all of them go when its end for writing is closed
    REQUIRE(pipe(gate) == 0);
    std::vector<pid_t> processes;
    for (const int64_t seed : all) {
      processes.push_back(fork());
      if (processes.back() != 0) continue;
      close(gate[1]);
      char none;
      if (::read(gate[0], &none, 1) != 0) _exit(2);
      try {
        join_grid_folder(grid_of("one", {"a"}, {seed}), "new.yaml", root);
      } catch (const std::exception&) {
        _exit(1);
      }
      _exit(0);
    }
    close(gate[0]);
    close(gate[1]);
    for (const pid_t process : processes) {
      int status = 0;
      waitpid(process, &status, 0);
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    std::vector<int64_t> seeds = load_grid_config(root / "grid.yaml").seeds;
    std::ranges::sort(seeds);
    CHECK(seeds == all);
  }
}

TEST_CASE("Data is prepared once, and again only where its inputs change") {
  const fs::path root = fs::temp_directory_path() / ("bov_prepare_test_" + std::to_string(getpid()));
  fs::remove_all(root);
  fs::create_directories(root);
  // 400 documents of 40 pseudo-random words: enough for a vocabulary of 310 and a validation split of 5 %.
  std::ofstream source(root / "source.jsonl");
  uint32_t random = 1;
  for (int document = 0; document < 400; ++document) {
    source << "{\"text\": \"";
    for (int letter = 0; letter < 240; ++letter) {
      random = random * 1664525 + 1013904223;
      source << (letter % 6 == 5 ? ' ' : static_cast<char>('a' + (random >> 24) % 20));
    }
    source << "\"}\n";
  }
  source.close();
  const std::vector<std::string> fetch{"/bin/sh", "-c",
                                       "cp '" + (root / "source.jsonl").string() +
                                           "' \"$2/text.jsonl\"; echo x >> '" + (root / "fetches").string() +
                                           "'",
                                       "fetch"};
  GridConfig grid;
  grid.base.model.vocab_size = 300;
  grid.base.data.shards = "shards";
  grid.prepare = PrepareConfig{"quick", "text", "tokenizer"};
  set_data_folder(grid, root);
  CHECK(grid.base.data.shards == root / "shards");
  Progress progress(ProgressStyle::none);

  prepare_data(grid, fetch, progress);
  const auto manifest = nlohmann::json::parse(read(root / "shards/manifest.json"));
  const auto first_written = fs::last_write_time(root / "shards/manifest.json");
  const std::string first_tokenizer = read(root / "tokenizer/tokenizer.model");
  CHECK(manifest.at("validation").at("documents").get<int64_t>() > 10);

  prepare_data(grid, fetch, progress);
  CHECK(fs::last_write_time(root / "shards/manifest.json") == first_written);
  CHECK(read(root / "fetches") == "x\n");

  grid.base.model.vocab_size = 310;
  prepare_data(grid, fetch, progress);
  CHECK(read(root / "tokenizer/tokenizer.model") != first_tokenizer);
  CHECK(fs::last_write_time(root / "shards/manifest.json") != first_written);
  CHECK(read(root / "fetches") == "x\n");

  grid.prepare->corpus = "core";
  CHECK_THROWS_WITH(
      prepare_data(grid, fetch, progress),
      Catch::Contains("made from {\"profile\":\"quick\"}, but the grid asks for {\"profile\":\"core\"}"));
  fs::remove_all(root / "text");
  CHECK_THROWS_WITH(
      prepare_data(grid, {"/bin/sh", "-c", "echo start; echo no network >&2; exit 1"}, progress),
      Catch::Contains("/bin/sh failed: no network"));
  fs::remove_all(root);
}

}  // namespace bov::experiments
