#include "experiments/doctor/diagnosis.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

#include "experiments/doctor/advice.h"

namespace bov::experiments {
namespace {

using Json = nlohmann::ordered_json;

Json cuda_to_json(const DoctorFacts& facts) {
  Json cuda{
      {"kernels", facts.build.cuda_build.empty() ? Json(nullptr) : Json(facts.build.cuda_build)},
      {"runtime", facts.cuda_runtime == 0 ? Json(nullptr) : Json(cuda_version_text(facts.cuda_runtime))},
      {"driver", facts.cuda.version == 0 ? Json(nullptr) : Json(cuda_version_text(facts.cuda.version))},
      {"problem", facts.cuda.problem.empty() ? Json(nullptr) : Json(facts.cuda.problem)},
      {"devices", Json::array()}};
  for (const CudaDevice& device : facts.cuda.devices) {
    cuda["devices"].push_back({{"name", device.name},
                               {"capability", std::to_string(device.capability_major) + "." +
                                                  std::to_string(device.capability_minor)},
                               {"memory_bytes", device.memory_bytes}});
  }
  return cuda;
}

/// Sections of lines of a name and a value, aligned within a section.
class TextWriter {
 public:
  void section(const std::string& title) {
    finish_section();
    out_ += (out_.empty() ? "" : "\n") + title + '\n';
  }

  void line(const std::string& name, const std::string& value) { lines_.emplace_back(name, value); }

  std::string text() {
    finish_section();
    return out_;
  }

 private:
  void finish_section() {
    size_t width = 0;
    for (const auto& line : lines_) width = std::max(width, line.first.size());
    for (const auto& [name, value] : lines_) {
      out_ += "  " + name + std::string(width - name.size() + 2, ' ') + (value.empty() ? "-" : value) + '\n';
    }
    lines_.clear();
  }

  std::string out_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

std::string scaled(double value, double unit, const std::string& name, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value / unit << ' ' << name;
  return out.str();
}

std::string gibibytes(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024.0 * 1024 * 1024, "GiB", 1);
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void write_build(const DoctorFacts& facts, TextWriter& text) {
  text.section("bov");
  text.line("version", facts.build.version);
  text.line("commit", facts.build.commit);
  text.line("compiler", facts.build.compiler);
  text.line("CUDA kernels", facts.build.cuda_build.empty() ? "not built" : facts.build.cuda_build);
  text.section("LibTorch");
  text.line("version", facts.torch.version);
  for (const auto& [name, value] : facts.torch.settings) text.line(name, value);
  text.line("C++11 ABI", facts.torch.new_abi ? "yes" : "no");
  text.line("MKL", facts.torch.mkl);
  text.line("oneDNN", facts.torch.onednn);
  text.line("OpenMP", facts.torch.openmp);
}

void write_cuda(const DoctorFacts& facts, TextWriter& text) {
  text.section("CUDA");
  text.line("runtime loaded", facts.cuda_runtime == 0 ? "none" : cuda_version_text(facts.cuda_runtime));
  text.line("driver runs CUDA", facts.cuda.version == 0 ? "none" : cuda_version_text(facts.cuda.version));
  for (size_t i = 0; i < facts.cuda.devices.size(); ++i) {
    const CudaDevice& device = facts.cuda.devices[i];
    text.line("device " + std::to_string(i),
              device.name + ", compute capability " + std::to_string(device.capability_major) + "." +
                  std::to_string(device.capability_minor) + ", " + gibibytes(device.memory_bytes));
  }
  if (facts.cuda.devices.empty()) text.line("devices", "none: " + facts.cuda.problem);
}

void write_machine(const DoctorFacts& facts, TextWriter& text) {
  text.section("Processor and memory");
  text.line("processor", facts.cpu.model);
  text.line("features", join(facts.cpu.features));
  text.line("torch uses", facts.cpu.torch_capability);
  text.line("cores", std::to_string(facts.cpu.cores) +
                         (facts.cpu.quota ? ", " + scaled(*facts.cpu.quota, 1, "granted", 1) : ""));
  text.line("threads", std::to_string(facts.cpu.threads));
  text.line("load", scaled(facts.cpu.load, 1, "in the last minute", 1));
  text.line("memory",
            gibibytes(facts.memory.total_bytes) + ", " + gibibytes(facts.memory.available_bytes) + " free");
  for (const auto& [name, value] : facts.variables) text.line(name, value);
  if (!facts.measured) return;
  text.section("Measured, with these threads");
  text.line("float32 matmul", scaled(facts.measured->matmul_float32, 1e9, "GFLOP/s", 1));
  text.line("bfloat16 matmul", scaled(facts.measured->matmul_bfloat16, 1e9, "GFLOP/s", 1));
  text.line("memory copy", scaled(facts.measured->copy, 1e9, "GB/s, read and written", 1));
}

}  // namespace

Json diagnosis_to_json(const DoctorFacts& facts) {
  Json json{{"bov",
             {{"version", facts.build.version},
              {"commit", facts.build.commit},
              {"compiler", facts.build.compiler},
              {"optimized", facts.build.optimized}}},
            {"libtorch",
             {{"version", facts.torch.version},
              {"cxx11_abi", facts.torch.new_abi},
              {"settings", facts.torch.settings},
              {"mkl", facts.torch.mkl},
              {"onednn", facts.torch.onednn},
              {"openmp", facts.torch.openmp}}},
            {"cuda", cuda_to_json(facts)},
            {"cpu",
             {{"model", facts.cpu.model},
              {"features", facts.cpu.features},
              {"torch_capability", facts.cpu.torch_capability},
              {"cores", facts.cpu.cores},
              {"quota", facts.cpu.quota ? Json(*facts.cpu.quota) : Json(nullptr)},
              {"threads", facts.cpu.threads},
              {"load", facts.cpu.load}}},
            {"memory",
             {{"total_bytes", facts.memory.total_bytes}, {"available_bytes", facts.memory.available_bytes}}},
            {"variables", facts.variables},
            {"libraries", facts.libraries}};
  if (facts.measured) {
    json["measured"] = {{"matmul_float32_flops", facts.measured->matmul_float32},
                        {"matmul_bfloat16_flops", facts.measured->matmul_bfloat16},
                        {"copy_bytes", facts.measured->copy}};
  }
  json["advice"] = Json::array();
  for (const Advice& advice : advise(facts)) {
    json["advice"].push_back({{"problem", advice.problem}, {"remedy", advice.remedy}});
  }
  return json;
}

std::string diagnosis_to_text(const DoctorFacts& facts) {
  TextWriter text;
  write_build(facts, text);
  write_cuda(facts, text);
  write_machine(facts, text);
  text.section("Libraries in this process");
  for (const auto& [name, folder] : facts.libraries) text.line(name, folder);
  const auto advice = advise(facts);
  text.section(advice.empty() ? "Nothing stands out." : "What stands out");
  for (const Advice& entry : advice) {
    text.line("problem", entry.problem);
    text.line("remedy", entry.remedy);
  }
  return text.text();
}

}  // namespace bov::experiments
