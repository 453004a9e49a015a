#include "experiments/convert/tensor_checks.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <stdexcept>

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file,
                       const std::string& name,
                       const std::string& problem) {
  throw std::runtime_error(file.string() + ": tensor '" + name + "' " + problem);
}

}  // namespace

void check_shape(const std::filesystem::path& file,
                 const std::string& name,
                 const at::Tensor& found,
                 at::IntArrayRef expected) {
  if (found.sizes() == expected) return;
  fail(file, name, c10::str("is ", found.sizes(), "; the config makes it ", expected));
}

void check_finite(const std::filesystem::path& file, const std::string& name, const at::Tensor& tensor) {
  const at::Tensor bad = at::isfinite(tensor).logical_not();
  const auto count = bad.sum().item<int64_t>();
  if (count == 0) return;
  const at::Tensor first = at::nonzero(bad)[0].contiguous();
  const at::IntArrayRef indices(first.data_ptr<int64_t>(), static_cast<size_t>(first.numel()));
  fail(file, name,
       c10::str("is ", tensor.sizes(), " and holds ", count,
                count == 1 ? " number that is" : " numbers that are", " NaN or infinite, the first at ",
                indices));
}

void check_finite(const std::filesystem::path& file, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) check_finite(file, name, tensor);
}

}  // namespace bov::experiments
