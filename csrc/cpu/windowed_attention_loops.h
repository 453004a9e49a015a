#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "csrc/cpu/attention_block.h"
#include "csrc/cpu/row_math.h"
#include "csrc/cpu/tile_product.h"

/// The loops of windowed_attention over blocks of queries and keys, forward and backward, for run_fused. `In` is the type
/// of the tensors, `T` (float or double) that of scores and sums.
namespace bov::ops::cpu {

/// A tensor [B, T, heads, D] with adjacent entries of D.
template <typename T>
struct Heads {
  T* data;
  int64_t batch, position, head;  ///< strides

  T* at(int64_t b, int64_t t, int64_t h) const { return data + b * batch + t * position + h * head; }
};

struct AttentionSizes {
  int64_t batches, length, heads;
  int64_t group;  ///< query heads of a key head
  int64_t width;
  int64_t left;  ///< at most `length`

  int64_t blocks() const { return (length + kBlock - 1) / kBlock; }
  /// Queries or keys of the block that begins at `first`.
  int64_t count(int64_t first) const { return std::min(kBlock, length - first); }
  /// Where the first block of keys begins that a query from `first` on sees.
  int64_t first_key(int64_t first) const { return std::max<int64_t>(0, first - left) / kBlock * kBlock; }
  template <typename T>
  int64_t padded() const {
    return (width + kTileColumns<T> - 1) / kTileColumns<T> * kTileColumns<T>;
  }
  template <typename T>
  T scale() const {
    return T(1 / std::sqrt(static_cast<double>(width)));
  }
};

/// Zeroed buffers of a task, each of whole cache lines.
template <typename T>
class Scratch {
 public:
  T* take(int64_t rows, int64_t columns) {
    memory_.push_back(at::zeros({rows, columns}, c10::CppTypeToScalarType<T>::value));
    return memory_.back().template mutable_data_ptr<T>();
  }

 private:
  std::vector<at::Tensor> memory_;
};

/// Blocks of queries, numbered over sequences, heads and blocks.
template <typename In, typename T>
struct ForwardBlocks {
  struct Problem {
    AttentionSizes sizes;
    Heads<const In> q, k, v;
    Heads<In> out;
    T* logsumexp;  ///< [B, H, T]
  };
  struct Buffers {
    explicit Buffers(const AttentionSizes& sizes) : padded(sizes.padded<T>()) {}

    Scratch<T> scratch;
    int64_t padded;
    T* rows = scratch.take(kBlock, padded);  ///< queries times the scale of scores
    T* columns = scratch.take(padded, kBlock);
    T* keys = scratch.take(kBlock, padded);
    T* values = scratch.take(kBlock, padded);
    T* scores = scratch.take(kBlock, kBlock);  ///< then weights; a row for each key
    T* sums = scratch.take(kBlock, padded);    ///< of values
  };

  template <bool Fma>
  BOV_ALWAYS_INLINE static void run(const Problem& p, const Buffers& buffers, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % p.sizes.blocks() * kBlock;
      const int64_t head = unit / p.sizes.blocks() % p.sizes.heads;
      attend<Fma>(p, buffers, unit / p.sizes.blocks() / p.sizes.heads, head, first);
    }
  }

  template <bool Fma>
  BOV_ALWAYS_INLINE static void attend(
      const Problem& p, const Buffers& to, int64_t batch, int64_t head, int64_t first) {
    const AttentionSizes& sizes = p.sizes;
    const int64_t count = sizes.count(first), width = sizes.width, padded = to.padded;
    const int64_t kv_head = head / sizes.group;
    load_rows(p.q.at(batch, first, head), p.q.position, count, width, sizes.scale<T>(), to.rows, padded);
    transpose(to.rows, padded, count, width, to.columns);
    std::fill_n(to.sums, count * padded, T(0));
    OnlineSoftmax<T> softmax;
    for (int64_t first_key = sizes.first_key(first); first_key <= first; first_key += kBlock) {
      const Window window{first_key - first, sizes.left, count, sizes.count(first_key)};
      const Range seen = window.keys_of(0, count - 1);
      const Matrix<T> keys =
          as_matrix(p.k.at(batch, first_key, kv_head), p.k.position, window.keys, width, to.keys, padded);
      const Matrix<T> values =
          as_matrix(p.v.at(batch, first_key, kv_head), p.v.position, window.keys, width, to.values, padded);
      product<Fma, false>(seen, keys, {to.columns, kBlock}, to.scores, kBlock, [&](int64_t i, int64_t last) {
        return std::pair(window.queries_of(i, last), Range{0, width});
      });
      softmax.add(to.scores, seen, window);
      softmax.shrink(to.sums, count, padded);
      product<Fma, true>({0, count}, {to.scores, 1, kBlock}, values, to.sums, padded,
                         [&](int64_t j, int64_t last) {
                           return std::pair(Range{0, padded}, window.keys_of(j, last));
                         });
    }
    for (int64_t j = 0; j < count; ++j) {
      scale_row(to.sums + j * padded, 1 / softmax.sums[j], p.out.at(batch, first + j, head), width);
      p.logsumexp[(batch * sizes.heads + head) * sizes.length + first + j] =
          softmax.peaks[j] + std::log(softmax.sums[j]);
    }
  }
};

/// Pairs of sequence and key head; each adds to the gradients of its own keys alone, in a fixed order.
template <typename In, typename T>
struct BackwardHeads {
  struct Problem {
    AttentionSizes sizes;
    Heads<const In> grad, q, k, v, out;
    const T* logsumexp;  ///< [B, H, T]
    Heads<In> q_grad;
    Heads<T> k_grad, v_grad;  ///< zeros, their width in whole tiles
  };
  struct Buffers {
    explicit Buffers(const AttentionSizes& sizes) : padded(sizes.padded<T>()) {}

    Scratch<T> scratch;
    int64_t padded;
    T* rows = scratch.take(kBlock, padded);  ///< queries times the scale of scores
    T* columns = scratch.take(padded, kBlock);
    T* grad_rows = scratch.take(kBlock, padded);
    T* grad_columns = scratch.take(padded, kBlock);
    T* keys = scratch.take(kBlock, padded);
    T* values = scratch.take(kBlock, padded);
    T* sums = scratch.take(kBlock, padded);         ///< gradients of queries
    T* weights = scratch.take(kBlock, kBlock);      ///< a row for each key
    T* score_grads = scratch.take(kBlock, kBlock);  ///< likewise
    T* totals = scratch.take(1, kBlock);            ///< logsumexp of each query
    T* deltas = scratch.take(1, kBlock);            ///< Σ gradient·result of each query
  };

  template <bool Fma>
  BOV_ALWAYS_INLINE static void run(const Problem& p, const Buffers& buffers, int64_t begin, int64_t end) {
    const AttentionSizes& sizes = p.sizes;
    const int64_t kv_heads = sizes.heads / sizes.group;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t kv_head = unit % kv_heads;
      for (int64_t head = kv_head * sizes.group; head < (kv_head + 1) * sizes.group; ++head) {
        for (int64_t first = 0; first < sizes.length; first += kBlock) {
          propagate<Fma>(p, buffers, unit / kv_heads, head, first);
        }
      }
    }
  }

  template <bool Fma>
  BOV_ALWAYS_INLINE static void propagate(
      const Problem& p, const Buffers& to, int64_t batch, int64_t head, int64_t first) {
    const AttentionSizes& sizes = p.sizes;
    const int64_t count = sizes.count(first), width = sizes.width, padded = to.padded;
    const int64_t kv_head = head / sizes.group;
    load_rows(p.q.at(batch, first, head), p.q.position, count, width, sizes.scale<T>(), to.rows, padded);
    transpose(to.rows, padded, count, width, to.columns);
    load_rows(p.grad.at(batch, first, head), p.grad.position, count, width, T(1), to.grad_rows, padded);
    transpose(to.grad_rows, padded, count, width, to.grad_columns);
    for (int64_t j = 0; j < count; ++j) {
      to.totals[j] = p.logsumexp[(batch * sizes.heads + head) * sizes.length + first + j];
      to.deltas[j] = T(dot_row(to.grad_rows + j * padded, p.out.at(batch, first + j, head), width));
    }
    std::fill_n(to.sums, count * padded, T(0));
    for (int64_t first_key = sizes.first_key(first); first_key <= first; first_key += kBlock) {
      const Window window{first_key - first, sizes.left, count, sizes.count(first_key)};
      const Range seen = window.keys_of(0, count - 1);
      const Matrix<T> keys =
          as_matrix(p.k.at(batch, first_key, kv_head), p.k.position, window.keys, width, to.keys, padded);
      const Matrix<T> values =
          as_matrix(p.v.at(batch, first_key, kv_head), p.v.position, window.keys, width, to.values, padded);
      const auto queries_of_keys = [&](int64_t i, int64_t last) {
        return std::pair(window.queries_of(i, last), Range{0, width});
      };
      product<Fma, false>(seen, keys, {to.columns, kBlock}, to.weights, kBlock, queries_of_keys);
      product<Fma, false>(seen, values, {to.grad_columns, kBlock}, to.score_grads, kBlock, queries_of_keys);
      softmax_gradient(to.weights, to.score_grads, seen, window, to.totals, to.deltas);

      const auto sum_over_queries = [&](int64_t i, int64_t last) {
        return std::pair(Range{0, padded}, window.queries_of(i, last));
      };
      product<Fma, true>(seen, {to.weights, kBlock}, {to.grad_rows, padded},
                         p.v_grad.at(batch, first_key, kv_head), p.v_grad.position, sum_over_queries);
      product<Fma, true>(seen, {to.score_grads, kBlock}, {to.rows, padded},
                         p.k_grad.at(batch, first_key, kv_head), p.k_grad.position, sum_over_queries);
      product<Fma, true>({0, count}, {to.score_grads, 1, kBlock}, keys, to.sums, padded,
                         [&](int64_t j, int64_t last) {
                           return std::pair(Range{0, padded}, window.keys_of(j, last));
                         });
    }
    for (int64_t j = 0; j < count; ++j) {
      scale_row(to.sums + j * padded, sizes.scale<T>(), p.q_grad.at(batch, first + j, head), width);
    }
  }
};

}  // namespace bov::ops::cpu
