#include <ATen/Parallel.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "csrc/version.h"
#include "experiments/doctor/advice.h"
#include "experiments/doctor/cuda_driver.h"
#include "experiments/doctor/diagnosis.h"
#include "experiments/doctor/facts.h"
#include "support/catch.h"

namespace bov::experiments {
namespace {

using Catch::Matchers::Contains;

/// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

/// A machine on which nothing stands out.
DoctorFacts healthy_facts() {
  DoctorFacts facts;
  facts.build = {.version = "0.1.0", .commit = "abc", .compiler = "GNU 12"};
  facts.torch.version = "2.11.0";
  facts.cuda.problem = "no NVIDIA driver";
  facts.cpu = {.model = "A processor",
               .features = {"avx2", "fma"},
               .torch_capability = "AVX2",
               .cores = 4,
               .threads = 4};
  facts.memory = {.total_bytes = int64_t{16} << 30, .available_bytes = int64_t{8} << 30};
  facts.variables = {{"OMP_WAIT_POLICY", "passive"}};
  facts.libraries = {{"libgomp.so.1", "/lib"}, {"libtorch_cpu.so", "/torch/lib"}};
  return facts;
}

CudaDevice device_of_capability(int major, int minor) {
  return {.name = "GPU", .capability_major = major, .capability_minor = minor, .memory_bytes = 1};
}

/// Expects exactly one piece of advice, whose problem and remedy contain the given texts.
void check_advice(const DoctorFacts& facts, const std::string& problem, const std::string& remedy) {
  const auto list = advise(facts);
  REQUIRE(list.size() == 1);
  CHECK_THAT(list[0].problem, Contains(problem));
  CHECK_THAT(list[0].remedy, Contains(remedy));
}

TEST_CASE("a healthy machine gets no advice") {
  CHECK(advise(healthy_facts()).empty());
  CHECK_THAT(diagnosis_to_text(healthy_facts()), Contains("Nothing stands out."));
}

TEST_CASE("each problem gets its remedy") {
  DoctorFacts facts = healthy_facts();
  SECTION("assertions") {
    facts.build.optimized = false;
    check_advice(facts, "assertions", "cpu-release");
  }
  SECTION("tokenizer") {
    facts.tokenizer_problem = "libbov_tokenizer.so was not found";
    check_advice(facts, "libbov_tokenizer.so was not found", "build again");
  }
  SECTION("more threads than cores") {
    facts.cpu.threads = 9;
    check_advice(facts, "9 threads on 4 cores", "OMP_NUM_THREADS=4");
  }
  SECTION("more threads than the container grants") {
    facts.cpu.quota = 1.5;
    check_advice(facts, "grants 2 cores", "OMP_NUM_THREADS=2");
  }
  SECTION("a busy machine") {
    facts.cpu.load = 9.25;
    check_advice(facts, "load 9.2 on 4 cores", "wait");
  }
  SECTION("active waiting") {
    facts.variables["OMP_WAIT_POLICY"] = "ACTIVE";
    check_advice(facts, "OMP_WAIT_POLICY is 'ACTIVE'", "unset");
  }
  SECTION("two OpenMP runtimes") {
    facts.libraries["libiomp5.so"] = "/opt";
    check_advice(facts, "two OpenMP runtimes", "LD_PRELOAD");
  }
  SECTION("a second BLAS") {
    facts.libraries["libopenblas.so.0"] = "/lib";
    check_advice(facts, "second BLAS", "do not link");
  }
  SECTION("no AVX2") {
    facts.cpu.features = {"fma"};
    check_advice(facts, "no AVX2", "newer");
  }
  SECTION("AVX-512 is not used") {
    facts.cpu.features.push_back("avx512f");
    check_advice(facts, "AVX-512", "ATEN_CPU_CAPABILITY");
  }
  SECTION("little memory") {
    facts.memory.available_bytes = int64_t{1} << 30;
    check_advice(facts, "less than 2 GiB", "smaller");
  }
  SECTION("a GPU and no kernels") {
    facts.cuda = {.version = 13000, .devices = {device_of_capability(9, 0)}, .problem = ""};
    check_advice(facts, "without CUDA kernels", "BOV_PRESET=cuda-release");
  }
  SECTION("kernels and no GPU") {
    facts.build.cuda_build = "nvcc 13.0";
    check_advice(facts, "no NVIDIA driver", "nvidia-smi");
  }
  SECTION("a driver older than the runtime") {
    facts.build.cuda_build = "nvcc 13.0";
    facts.cuda = {.version = 12080, .devices = {device_of_capability(9, 0)}, .problem = ""};
    facts.cuda_runtime = 13000;
    check_advice(facts, "driver runs CUDA 12.8, LibTorch needs 13.0", "580");
  }
  SECTION("a GPU older than the kernels") {
    facts.build.cuda_build = "nvcc 13.0";
    facts.cuda = {.version = 13000, .devices = {device_of_capability(7, 5)}, .problem = ""};
    check_advice(facts, "compute capability 7.5", "CMAKE_CUDA_ARCHITECTURES=75");
  }
}

TEST_CASE("the driver is asked for its version and devices") {
  SECTION("two devices") {
    const Variable devices("FAKE_CUDA_DEVICES", "2");
    const CudaDriver driver = query_cuda_driver(BOV_FAKE_CUDA_DRIVER);
    CHECK(driver.problem.empty());
    CHECK(driver.version == 13000);
    REQUIRE(driver.devices.size() == 2);
    CHECK(driver.devices[1].name == "Second GPU");
    CHECK(driver.devices[1].capability_major == 9);
    CHECK(driver.devices[1].capability_minor == 0);
    CHECK(driver.devices[1].memory_bytes == 80'000'000'101);
  }
  SECTION("no device") {
    const CudaDriver driver = query_cuda_driver(BOV_FAKE_CUDA_DRIVER);
    CHECK(driver.problem == "the driver sees no device");
    CHECK(driver.devices.empty());
  }
  SECTION("an error") {
    const Variable error("FAKE_CUDA_INIT_ERROR", "999");
    const CudaDriver driver = query_cuda_driver(BOV_FAKE_CUDA_DRIVER);
    CHECK(driver.problem == "cuInit failed with CUDA error 999");
    CHECK(driver.version == 13000);
  }
  SECTION("no driver") {
    CHECK(query_cuda_driver("libno-such-driver.so").problem ==
          "no NVIDIA driver: libno-such-driver.so was not found");
  }
}

TEST_CASE("this machine is described") {
  const DoctorFacts facts = collect_facts(true);
  CHECK(facts.torch.settings.at("BLAS_INFO") != "");
  CHECK(facts.tokenizer_problem.empty());
  CHECK(facts.cpu.threads == at::get_num_threads());
  CHECK(facts.cpu.cores >= 1);
  CHECK(facts.memory.available_bytes > 0);
  CHECK(facts.memory.available_bytes <= facts.memory.total_bytes);
  const std::string library = std::string("libbov_ops.so.") + ops::version();
  for (const std::string& name :
       std::vector<std::string>{library, "libtorch_cpu.so", "libgomp.so.1", "libbov_tokenizer.so"}) {
    INFO(name);
    REQUIRE(facts.libraries.contains(name));
    CHECK(std::filesystem::exists(std::filesystem::path(facts.libraries.at(name)) / name));
  }
  CHECK(facts.libraries.contains("libsentencepiece.so.0.0.0"));
  REQUIRE(facts.measured);
  // No machine that runs this is slower or faster than these.
  CHECK(facts.measured->matmul_float32 > 1e8);
  CHECK(facts.measured->matmul_float32 < 1e15);
  CHECK(facts.measured->copy > 1e8);
  CHECK(facts.measured->copy < 1e13);
}

TEST_CASE("the diagnosis says what was found") {
  DoctorFacts facts = healthy_facts();
  facts.torch.settings = {{"BLAS_INFO", "mkl"}};
  facts.build.cuda_build = "nvcc 13.0.88 for 80-real,90";
  facts.cuda = {.version = 13020, .devices = {device_of_capability(9, 0)}, .problem = ""};
  facts.cpu.threads = 5;
  facts.measured = {.matmul_float32 = 1.25e11, .matmul_bfloat16 = 2e11, .copy = 2.5e10};

  const auto json = diagnosis_to_json(facts);
  CHECK(json["cuda"]["kernels"] == "nvcc 13.0.88 for 80-real,90");
  CHECK(json["cuda"]["driver"] == "13.2");
  CHECK(json["cuda"]["runtime"].is_null());
  CHECK(json["cuda"]["devices"][0]["capability"] == "9.0");
  CHECK(json["measured"]["matmul_float32_flops"] == 1.25e11);
  CHECK(json["advice"][0]["remedy"] == "set OMP_NUM_THREADS=4");

  const std::string text = diagnosis_to_text(facts);
  CHECK_THAT(text, Contains("BLAS_INFO  mkl\n"));
  CHECK_THAT(text, Contains("device 0          GPU, compute capability 9.0, 0.0 GiB\n"));
  CHECK_THAT(text, Contains("float32 matmul   125.0 GFLOP/s\n"));
  CHECK_THAT(text, Contains("memory           16.0 GiB, 8.0 GiB free\n"));
  CHECK_THAT(text, Contains("5 threads on 4 cores"));
}

}  // namespace
}  // namespace bov::experiments
