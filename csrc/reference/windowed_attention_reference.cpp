#include "csrc/reference/windowed_attention_reference.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "csrc/windowed_attention_contract.h"

namespace bov::ops::reference {

at::Tensor windowed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t left) {
  check_windowed_attention(q, k, v, left);
  const at::ScalarType compute = compute_type(q.scalar_type());
  const int64_t group = q.size(2) / k.size(2);
  const at::Tensor queries = q.to(compute).transpose(1, 2);
  const at::Tensor keys = k.to(compute).transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor values = v.to(compute).transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor position = at::arange(q.size(1), q.options().dtype(at::kLong));
  const at::Tensor distance = position.unsqueeze(1) - position;
  const at::Tensor seen = (distance >= 0).logical_and(distance <= left);
  const at::Tensor scores =
      at::matmul(queries, keys.transpose(2, 3)) * (1.0 / std::sqrt(static_cast<double>(q.size(3))));
  const at::Tensor weights =
      at::softmax(scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), -1);
  return at::matmul(weights, values).transpose(1, 2).to(q.scalar_type());
}

}  // namespace bov::ops::reference
