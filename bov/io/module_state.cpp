#include "bov/io/module_state.h"

#include <c10/core/GradMode.h>

#include <sstream>

namespace bov {
namespace {

/// Problems of one kind; long lists are cut, their length is not.
class Problems {
 public:
  explicit Problems(const char* title) : title_(title) {}
  void add(const std::string& problem) {
    if (count_++ < kShown) text_ += (text_.empty() ? "" : ", ") + problem;
  }
  void append_to(std::string& report) const {
    if (count_ == 0) return;
    report += std::string("; ") + title_ + ": " + text_;
    if (count_ > kShown) report += " and " + std::to_string(count_ - kShown) + " more";
  }

 private:
  static constexpr int kShown = 10;
  const char* title_;
  std::string text_;
  int count_ = 0;
};

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

std::string find_problems(const TensorMap& parameters, const TensorMap& tensors, bool convert_dtype) {
  Problems missing("missing");
  Problems unexpected("unexpected");
  Problems different("different");
  for (const auto& [name, parameter] : parameters) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || !found->second.defined()) {
      missing.add(name);
      continue;
    }
    const at::Tensor& tensor = found->second;
    const bool same_dtype = convert_dtype || tensor.scalar_type() == parameter.scalar_type();
    if (tensor.sizes() != parameter.sizes() || !same_dtype) {
      different.add(name + " is " + describe(tensor) + ", expected " + describe(parameter));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!parameters.count(name)) unexpected.add(name);
  }
  std::string report;
  missing.append_to(report);
  unexpected.append_to(report);
  different.append_to(report);
  return report;
}

}  // namespace

TensorMap module_state(const torch::nn::Module& module) {
  TensorMap state;
  for (const auto& item : module.named_parameters()) state[item.key()] = item.value().detach();
  return state;
}

void load_parameters(torch::nn::Module& module, const TensorMap& tensors, bool convert_dtype) {
  const c10::NoGradGuard no_grad;
  TensorMap parameters = module_state(module);
  const std::string report = find_problems(parameters, tensors, convert_dtype);
  TORCH_CHECK(report.empty(), "the tensors do not fit the parameters", report);
  for (auto& [name, parameter] : parameters) parameter.copy_(tensors.at(name));
}

}  // namespace bov
