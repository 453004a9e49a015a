#include "csrc/windowed_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "csrc/reference/windowed_attention_reference.h"
#include "support/catch.h"
#include "support/finite_difference.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::windowed_attention;
using bov::testing::bitwise_equal;
using bov::testing::gradient_error;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;
namespace reference = bov::ops::reference;

const std::vector<at::ScalarType> kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

struct Inputs {
  at::Tensor q, k, v, upstream;
};

Inputs random_inputs(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, int64_t width) {
  return {at::randn({batch, length, heads, width}, at::kDouble),
          at::randn({batch, length, kv_heads, width}, at::kDouble),
          at::randn({batch, length, kv_heads, width}, at::kDouble),
          at::randn({batch, length, heads, width}, at::kDouble)};
}

/// The result and the gradients of q, k and v, of any implementation, with the inputs in `dtype`.
template <typename Attention>
std::vector<at::Tensor> evaluate(const Attention& attention,
                                 const Inputs& inputs,
                                 int64_t left,
                                 at::ScalarType dtype) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor* x : {&inputs.q, &inputs.k, &inputs.v}) {
    leaves.push_back(x->to(dtype).detach().requires_grad_(true));
  }
  const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], left);
  std::vector<at::Tensor> results = {out};
  for (at::Tensor& gradient : torch::autograd::grad({out}, leaves, {inputs.upstream.to(dtype)})) {
    results.push_back(gradient);
  }
  return results;
}

/// ||a - b|| relative to ||b||, or to ||upstream|| where that is larger: with one visible key the gradients of q and k are
/// differences of equal numbers.
double error_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& upstream) {
  const at::Tensor expected = b.detach().to(at::kDouble);
  const double difference = (a.detach().to(at::kDouble) - expected).norm().item<double>();
  return difference / std::max(expected.norm().item<double>(), upstream.norm().item<double>());
}

/// Inputs after rounding to `dtype`, so that a float64 oracle sees the same numbers.
Inputs rounded(const Inputs& inputs, at::ScalarType dtype) {
  const auto round = [&](const at::Tensor& x) { return x.to(dtype).to(at::kDouble); };
  return {round(inputs.q), round(inputs.k), round(inputs.v), round(inputs.upstream)};
}

}  // namespace

TEST_CASE("windowed_attention and its gradients equal one masked softmax, for any length, window and heads") {
  at::manual_seed(5);
  // Blocks are 96 long and tiles 6 by 8.
  for (const int64_t length : {1, 2, 5, 95, 96, 97, 200, 289}) {
    for (const int64_t left : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{95}, int64_t{96}, int64_t{130},
                               int64_t{288}, std::numeric_limits<int64_t>::max()}) {
      for (const int64_t kv_heads : {1, 2, 4}) {
        INFO("length " << length << " left " << left << " kv heads " << kv_heads);
        const Inputs inputs = random_inputs(2, length, 4, kv_heads, 16);
        const auto actual = evaluate(windowed_attention, inputs, left, at::kDouble);
        const auto expected = evaluate(reference::windowed_attention, inputs, left, at::kDouble);
        for (size_t i = 0; i < actual.size(); ++i) {
          // Sums of at most 289·4 terms in another order.
          CHECK(error_of(actual[i], expected[i], inputs.upstream) < 1e-14);
          CHECK(actual[i].is_contiguous());
        }
      }
    }
  }
}

TEST_CASE("windowed_attention is as exact as its dtype allows, for any head width") {
  at::manual_seed(6);
  for (const auto dtype : kDtypes) {
    for (const int64_t width : {1, 6, 24, 32, 33, 128}) {
      INFO(dtype << ", width " << width);
      const Inputs inputs = rounded(random_inputs(1, 150, 2, 1, width), dtype);
      const auto actual = evaluate(windowed_attention, inputs, 70, dtype);
      const auto expected = evaluate(reference::windowed_attention, inputs, 70, at::kDouble);
      for (size_t i = 0; i < actual.size(); ++i) {
        CHECK(actual[i].scalar_type() == dtype);
        // Sums are float32 or float64 and results are rounded once. The backward pass reads the rounded result, whose
        // error grows where the two terms of a score's gradient cancel; a tenth of that size was the largest seen.
        const double sums = 20 * unit_roundoff(dtype == at::kDouble ? at::kDouble : at::kFloat);
        CHECK(error_of(actual[i], expected[i], inputs.upstream) < sums + 2 * unit_roundoff(dtype));
      }
    }
  }
}

TEST_CASE("windowed_attention's gradients agree with finite differences in float64") {
  at::manual_seed(7);
  const Inputs inputs = random_inputs(2, 7, 4, 2, 3);
  for (const int64_t left : {0, 2, 6}) {
    const auto loss = [&](const std::vector<at::Tensor>& in) {
      return (windowed_attention(in[0], in[1], in[2], left) * inputs.upstream).tanh().sum();
    };
    // Central differences are good to about 1e-10 of the function.
    CHECK(gradient_error(loss, {inputs.q.detach(), inputs.k.detach(), inputs.v.detach()}) < 1e-8);
  }
}

TEST_CASE("windowed_attention gives exact numbers that were worked out by hand") {
  // With keys of zero all weights are equal, so results are running means of the window.
  const at::Tensor q = at::ones({1, 4, 1, 2}), k = at::zeros({1, 4, 1, 2});
  const at::Tensor v =
      at::tensor({1.0, 10.0, 2.0, 20.0, 6.0, 60.0, 10.0, 100.0}, at::kFloat).view({1, 4, 1, 2});
  const at::Tensor expected =
      at::tensor({1.0, 10.0, 1.5, 15.0, 4.0, 40.0, 8.0, 80.0}, at::kFloat).view({1, 4, 1, 2});
  CHECK(at::equal(windowed_attention(q, k, v, 1), expected));
  // A window of 0 is the value itself.
  CHECK(at::equal(windowed_attention(q, k, v, 0), v));
}

TEST_CASE("windowed_attention keeps large scores finite and carries NaN to the queries that see it") {
  at::manual_seed(8);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    Inputs inputs = random_inputs(1, 200, 1, 1, 8);
    inputs.q.mul_(100);
    inputs.k.mul_(100);
    const auto actual = evaluate(windowed_attention, inputs, 50, dtype);
    const auto expected = evaluate(reference::windowed_attention, inputs, 50, dtype);
    // Scores of some 10^4 have rounding errors of 10^4 roundoffs, which are relative errors of the weights.
    CHECK(relative_error(actual[0], expected[0]) < 2e4 * unit_roundoff(dtype));

    const at::Tensor v =
        inputs.v.to(dtype).index_put({at::tensor({0}), at::tensor({60})}, at::tensor(std::nan("")).to(dtype));
    const at::Tensor out = windowed_attention(inputs.q.to(dtype), inputs.k.to(dtype) * 1e-3, v, 50);
    const at::Tensor bad = out.isnan().flatten(2).any(-1)[0];
    CHECK(bad.slice(0, 60, 111).all().item<bool>());
    // Up to five queries beside them share a tile with them and see it with a weight of 0.
    CHECK_FALSE(bad.slice(0, 0, 55).any().item<bool>());
    CHECK_FALSE(bad.slice(0, 116).any().item<bool>());
  }
}

TEST_CASE("windowed_attention hides no NaN of a query, whatever its bits") {
  Inputs inputs = random_inputs(1, 40, 1, 1, 8);
  for (const int32_t bits : {0x7fc00000, 0x7fc00001, 0x7f800001, -1}) {
    at::Tensor q = inputs.q.to(at::kFloat).clone();
    q.view(at::kInt)[0][2][0][3] = bits;
    const at::Tensor out = windowed_attention(q, inputs.k.to(at::kFloat), inputs.v.to(at::kFloat), 10);
    CHECK(out[0][2].isnan().all().item<bool>());
    CHECK_FALSE(out[0][1].isnan().any().item<bool>());
  }
}

TEST_CASE("windowed_attention accepts strided and broadcast tensors and empty ones") {
  at::manual_seed(9);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {5, 16}) {
      const at::Tensor packed = at::randn({2, 130, 2, 3 * width}).to(dtype).requires_grad_(true);
      const at::Tensor upstream = at::randn({2, 2, 130, width}).to(dtype).transpose(1, 2);
      const auto gradient = [&](bool contiguous) {
        auto parts = packed.chunk(3, -1);
        // Every second entry: columns that are not adjacent.
        parts[2] = at::cat({parts[2], parts[2]}, -1).slice(-1, 0, 2 * width, 2);
        for (at::Tensor& part : parts) {
          part = contiguous ? part.contiguous() : part;
        }
        const at::Tensor out = windowed_attention(parts[0], parts[1], parts[2], 40);
        return torch::autograd::grad({out}, {packed}, {contiguous ? upstream.contiguous() : upstream})[0];
      };
      CHECK(bitwise_equal(gradient(false), gradient(true)));
    }
  }
  const at::Tensor one = at::randn({1, 1, 1, 4}).requires_grad_(true);
  const at::Tensor spread = one.expand({3, 20, 2, 4});
  const at::Tensor out = windowed_attention(spread, spread, spread, 6);
  // Equal values have their own mean; each of the 120 rows passes its gradient on to the one vector.
  CHECK(relative_error(out, spread) < 2 * unit_roundoff(at::kFloat));
  CHECK(relative_error(torch::autograd::grad({out.sum()}, {one})[0], at::full({1, 1, 1, 4}, 120.0)) < 1e-5);

  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{0, 5, 2, 4}, {2, 0, 2, 4}, {2, 5, 2, 0}}) {
    const at::Tensor empty = at::empty(shape).requires_grad_(true);
    const at::Tensor result = windowed_attention(empty, empty, empty, 3);
    CHECK(result.sizes() == at::IntArrayRef(shape));
    CHECK(torch::autograd::grad({result.sum()}, {empty})[0].sizes() == at::IntArrayRef(shape));
  }
}

TEST_CASE("windowed_attention does not depend on the number of threads") {
  at::manual_seed(10);
  const int threads = at::get_num_threads();
  const Inputs inputs = random_inputs(2, 300, 6, 3, 32);
  at::set_num_threads(1);
  const auto expected = evaluate(windowed_attention, inputs, 128, at::kFloat);
  for (const int count : {2, 3, 7}) {
    at::set_num_threads(count);
    const auto actual = evaluate(windowed_attention, inputs, 128, at::kFloat);
    for (size_t i = 0; i < actual.size(); ++i) {
      CHECK(bitwise_equal(actual[i], expected[i]));
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("windowed_attention has no gradient of second order, and none where none is asked for") {
  const Inputs inputs = random_inputs(1, 3, 1, 1, 2);
  const at::Tensor q = inputs.q.detach().requires_grad_(true);
  CHECK_FALSE(windowed_attention(inputs.q.detach(), inputs.k, inputs.v, 1).requires_grad());
  const at::Tensor out = windowed_attention(q, inputs.k, inputs.v, 1).pow(2).sum();
  const auto first = torch::autograd::grad({out}, {q}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  CHECK_THROWS_WITH(torch::autograd::grad({first[0].sum()}, {q}),
                    Contains("_windowed_attention_backward: double backward is not implemented"));
}

TEST_CASE(
    "windowed_attention names what is wrong with its arguments, on every backend and in inference mode") {
  for (const auto device : {at::kCPU, at::kMeta}) {
    for (const bool inference : {false, true}) {
      const c10::InferenceMode mode(inference);
      const auto zeros = [&](at::IntArrayRef shape) { return at::zeros(shape, at::device(device)); };
      const at::Tensor q = zeros({1, 3, 2, 4});
      CHECK_THROWS_WITH(windowed_attention(q[0], q, q, 1),
                        Contains("q, k and v must be [B, T, heads, D], got [3, 2, 4]"));
      CHECK_THROWS_WITH(windowed_attention(q.to(at::kInt), q, q, 1), Contains("q must be float64, float32"));
      CHECK_THROWS_WITH(windowed_attention(q, q.to(at::kDouble), q, 1),
                        Contains("must have one dtype, got Float, Double and Float"));
      CHECK_THROWS_WITH(windowed_attention(q, q, zeros({1, 3, 2, 5}), 1),
                        Contains("k and v must have one shape"));
      CHECK_THROWS_WITH(windowed_attention(zeros({1, 3, 3, 4}), q, q, 1),
                        Contains("(3) must be a multiple of the number of kv heads (2)"));
      CHECK_THROWS_WITH(windowed_attention(q, zeros({1, 4, 2, 4}), zeros({1, 4, 2, 4}), 1),
                        Contains("q and k differ in B, T or D"));
      CHECK_THROWS_WITH(windowed_attention(q, zeros({1, 3, 0, 4}), zeros({1, 3, 0, 4}), 1),
                        Contains("number of kv heads (0)"));
      CHECK_THROWS_WITH(windowed_attention(q, q, q, -1), Contains("left must be 0 or more, got -1"));
    }
  }
  const at::Tensor q = at::zeros({1, 3, 2, 4});
  CHECK_THROWS_WITH(windowed_attention(q, q.to(at::kMeta), q, 1),
                    Contains("must be on one device, got cpu, meta and cpu"));
}

TEST_CASE("windowed_attention infers shapes and dtypes on meta tensors") {
  const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
  const at::Tensor q = at::empty({2, 5, 4, 8}, options).requires_grad_(true);
  const at::Tensor k = at::empty({2, 5, 2, 8}, options).requires_grad_(true);
  const at::Tensor out = windowed_attention(q, k, k, 2);
  CHECK(out.sizes() == q.sizes());
  CHECK(out.scalar_type() == at::kBFloat16);
  const auto gradients = torch::autograd::grad({out.sum()}, {q, k});
  CHECK(gradients[0].sizes() == q.sizes());
  CHECK(gradients[1].sizes() == k.sizes());
}

TEST_CASE("windowed_attention under autocast computes in autocast's dtype") {
  at::manual_seed(11);
  const Inputs inputs = random_inputs(1, 9, 2, 2, 4);
  const at::Tensor q = inputs.q.to(at::kFloat), k = inputs.k.to(at::kFloat), v = inputs.v.to(at::kFloat);
  const auto bf16 = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  const at::Tensor expected = windowed_attention(bf16(q), bf16(k), bf16(v), 3);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor actual = windowed_attention(q, k, v, 3);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  CHECK(bitwise_equal(actual, expected));
}
