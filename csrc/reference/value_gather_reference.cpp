#include "csrc/reference/value_gather_reference.h"

#include <ATen/ATen.h>

#include "csrc/value_gather_contract.h"

namespace bov::ops::reference {

at::Tensor value_gather(const at::Tensor& table,
                        const at::Tensor& ids,
                        const std::optional<at::Tensor>& scale,
                        std::optional<at::ScalarType> dtype) {
  const at::ScalarType out = dtype.value_or(table.scalar_type());
  const at::ScalarType compute = compute_type(table.scalar_type(), out);
  at::Tensor values = at::embedding(table.to(compute), ids);
  if (scale.has_value()) {
    values = values * scale->to(compute).reshape({});
  }
  return values.to(out);
}

}  // namespace bov::ops::reference
