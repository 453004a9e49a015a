#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "csrc/bank_attention_contract.h"
#include "csrc/cpu/bank_attention_run.h"

namespace bov::ops {
namespace {

template <typename Compute>
at::Tensor attend(const at::Tensor& q,
                  const at::Tensor& keys,
                  const at::Tensor& table,
                  int64_t left,
                  double scale,
                  const float* row_scale,
                  const std::vector<cpu::SequenceView>& views) {
  const at::Tensor queries = q.to(compute_type(q.scalar_type())).contiguous();
  at::Tensor out = at::empty_like(queries);
  cpu::BankAttentionRun<Compute>(q, keys, table, row_scale, left, views)
      .run(queries.const_data_ptr<Compute>(), static_cast<Compute>(scale), out.mutable_data_ptr<Compute>());
  return out.to(q.scalar_type());
}

at::Tensor bank_attention_cpu(const at::Tensor& q,
                              const at::Tensor& keys,
                              const at::Tensor& table,
                              const at::Tensor& ids,
                              const at::Tensor& lengths,
                              int64_t left,
                              const std::optional<at::Tensor>& scale,
                              const std::optional<at::Tensor>& row_scale,
                              c10::string_view algorithm) {
  check_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
  const std::vector<cpu::SequenceView> views =
      cpu::view_sequences(ids, lengths, q.size(1), left, table.size(0), algorithm_named(algorithm));
  const double factor = scale.has_value() ? scale->item().to<double>() : 1.0;
  const float* row_scales = row_scale.has_value() ? row_scale->const_data_ptr<float>() : nullptr;
  return q.scalar_type() == at::kDouble ? attend<double>(q, keys, table, left, factor, row_scales, views)
                                        : attend<float>(q, keys, table, left, factor, row_scales, views);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("bank_attention", bank_attention_cpu);
}

}  // namespace bov::ops
