#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bov/io/safetensors.h"
#include "experiments/golden/golden_check.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace bov::experiments {
namespace {

std::filesystem::path golden_folder() {
  return BOV_GOLDEN_DIR;
}

TEST_CASE("the model agrees with all 19 golden files in float64") {
  const auto results = check_golden(golden_folder(), torch::kFloat64);
  CHECK(results.size() == 19);
  for (const GoldenErrors& file : results) {
    for (const auto& [group, error] : file.by_group) {
      INFO(file.file << " " << group);
      // The files hold float32 roundings of float64 results: 2^-24 relative a number, so 6e-8 a tensor at most.
      CHECK(error < 1e-6);
    }
  }
}

TEST_CASE("the model agrees with the golden files in float32") {
  for (const GoldenErrors& file : check_golden(golden_folder(), torch::kFloat32)) {
    for (const auto& [group, error] : file.by_group) {
      INFO(file.file << " " << group);
      // Forward and backward round to 6e-8 a number and keep 1e-6 of a tensor. A coefficient's gradient is one number, a
      // sum of thousands that largely cancel. Orthogonalisation then lifts the small singular
      // values of a gradient, rounding and all, towards 1.
      const double bound = group.starts_with("after/")   ? 2e-3
                           : group == "grad/coefficient" ? 1e-3
                           : group.starts_with("grad/")  ? 1e-4
                                                         : 2e-6;
      CHECK(error < bound);
    }
  }
}

TEST_CASE("one NaN in a golden file is no agreement") {
  bov::testing::TemporaryFolder folder;
  TensorMap tensors = load_safetensors(golden_folder() / "standard.safetensors");
  tensors.at("after5/transformer.h.0.attn.c_q.weight")[0][0] = NAN;
  save_safetensors(folder.path() / "standard.safetensors", tensors);
  std::ifstream index(golden_folder() / "index.json");
  std::ofstream(folder.path() / "index.json") << nlohmann::json::array({nlohmann::json::parse(index)[0]});
  const auto results = check_golden(folder.path(), torch::kFloat64);
  CHECK(std::isnan(results.at(0).largest()));
  CHECK(std::isnan(results.at(0).by_group.at("after/matrix")));
  std::ofstream(folder.path() / "index.json") << "[]";
  CHECK_THROWS_WITH(check_golden(folder.path(), torch::kFloat64), Catch::Contains("lists no golden files"));
}

TEST_CASE("a folder without golden files is refused by name") {
  CHECK_THROWS_WITH(check_golden("/nonexistent", torch::kFloat64),
                    Catch::Contains("/nonexistent/index.json"));
}

}  // namespace
}  // namespace bov::experiments
