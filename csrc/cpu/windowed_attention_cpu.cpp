#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "csrc/cpu/dispatch_value_type.h"
#include "csrc/cpu/windowed_attention_loops.h"
#include "csrc/windowed_attention_contract.h"

namespace bov::ops {
namespace {

using cpu::BackwardHeads;
using cpu::ForwardBlocks;
using cpu::Heads;

template <typename T>
Heads<const T> heads_of(const at::Tensor& x) {
  return {x.const_data_ptr<T>(), x.stride(0), x.stride(1), x.stride(2)};
}

template <typename T>
Heads<T> mutable_heads_of(at::Tensor& x) {
  return {x.mutable_data_ptr<T>(), x.stride(0), x.stride(1), x.stride(2)};
}

at::Tensor with_adjacent_entries(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

cpu::AttentionSizes sizes_of(const at::Tensor& q, const at::Tensor& k, int64_t left) {
  return {q.size(0), q.size(1), q.size(2), q.size(2) / k.size(2), q.size(3), std::min(left, q.size(1))};
}

/// Runs Loop over `units`, each task with buffers of its own.
template <typename Loop>
void run_tasks(const typename Loop::Problem& problem, int64_t units) {
  at::parallel_for(0, units, 1, [&](int64_t begin, int64_t end) {
    cpu::run_fused<Loop>(problem, typename Loop::Buffers(problem.sizes), begin, end);
  });
}

template <typename Body>
void dispatch(at::ScalarType dtype, const Body& body) {
  cpu::dispatch_value_type(dtype, [&](auto zero) {
    using In = decltype(zero);
    body(zero, kernels::ComputeType<In, In>(0));
  });
}

std::tuple<at::Tensor, at::Tensor> windowed_attention_cpu(const at::Tensor& q,
                                                          const at::Tensor& k,
                                                          const at::Tensor& v,
                                                          int64_t left) {
  check_windowed_attention(q, k, v, left);
  const auto compute = q.options().dtype(compute_type(q.scalar_type()));
  at::Tensor out = at::empty(q.sizes(), q.options());
  at::Tensor logsumexp = at::zeros({q.size(0), q.size(2), q.size(1)}, compute);
  if (q.numel() == 0) {
    return {out, logsumexp};
  }
  const at::Tensor queries = with_adjacent_entries(q), keys = with_adjacent_entries(k),
                   values = with_adjacent_entries(v);
  dispatch(q.scalar_type(), [&](auto in, auto sum) {
    using In = decltype(in);
    using T = decltype(sum);
    const cpu::AttentionSizes sizes = sizes_of(q, k, left);
    run_tasks<ForwardBlocks<In, T>>({sizes, heads_of<In>(queries), heads_of<In>(keys), heads_of<In>(values),
                                     mutable_heads_of<In>(out), logsumexp.mutable_data_ptr<T>()},
                                    sizes.batches * sizes.heads * sizes.blocks());
  });
  return {out, logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> windowed_attention_backward_cpu(const at::Tensor& grad,
                                                                               const at::Tensor& q,
                                                                               const at::Tensor& k,
                                                                               const at::Tensor& v,
                                                                               const at::Tensor& out,
                                                                               const at::Tensor& logsumexp,
                                                                               int64_t left) {
  check_windowed_attention_backward(grad, q, k, v, out, logsumexp, left);
  at::Tensor q_grad = at::empty(q.sizes(), q.options());
  if (q.numel() == 0) {
    return {q_grad, at::zeros(k.sizes(), k.options()), at::zeros(v.sizes(), v.options())};
  }
  const at::Tensor upstream = with_adjacent_entries(grad), queries = with_adjacent_entries(q),
                   keys = with_adjacent_entries(k), values = with_adjacent_entries(v),
                   result = with_adjacent_entries(out), totals = logsumexp.contiguous();
  at::Tensor k_grad, v_grad;
  dispatch(q.scalar_type(), [&](auto in, auto sum) {
    using In = decltype(in);
    using T = decltype(sum);
    const cpu::AttentionSizes sizes = sizes_of(q, k, left);
    const std::array<int64_t, 4> padded{k.size(0), k.size(1), k.size(2), sizes.padded<T>()};
    k_grad = at::zeros(padded, totals.options());
    v_grad = at::zeros(padded, totals.options());
    run_tasks<BackwardHeads<In, T>>(
        {sizes, heads_of<In>(upstream), heads_of<In>(queries), heads_of<In>(keys), heads_of<In>(values),
         heads_of<In>(result), totals.const_data_ptr<T>(), mutable_heads_of<In>(q_grad),
         mutable_heads_of<T>(k_grad), mutable_heads_of<T>(v_grad)},
        sizes.batches * k.size(2));
  });
  const auto finish = [&](const at::Tensor& x) {
    return x.slice(3, 0, k.size(3)).to(k.scalar_type()).contiguous();
  };
  return {q_grad, finish(k_grad), finish(v_grad)};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("_windowed_attention", windowed_attention_cpu);
  m.impl("_windowed_attention_backward", windowed_attention_backward_cpu);
}

}  // namespace bov::ops
