#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <vector>

#include "csrc/reference/windowed_attention_reference.h"
#include "csrc/windowed_attention.h"
#include "support/catch.h"
#include "support/cuda.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::windowed_attention;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;
namespace reference = bov::ops::reference;

/// The result and the gradients of q, k and v, of any implementation.
template <typename Attention>
std::vector<at::Tensor> evaluate(const Attention& attention,
                                 const std::vector<at::Tensor>& inputs,
                                 const at::Tensor& upstream,
                                 int64_t left) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : inputs) {
    leaves.push_back(x.detach().requires_grad_(true));
  }
  std::vector<at::Tensor> results = {attention(leaves[0], leaves[1], leaves[2], left)};
  for (const at::Tensor& gradient : torch::autograd::grad({results[0]}, leaves, {upstream})) {
    results.push_back(gradient);
  }
  return results;
}

}  // namespace

TEST_CASE("windowed_attention on CUDA equals the reference, with and without FlashAttention", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(1);
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    // FlashAttention takes widths that are multiples of 8.
    for (const int64_t width : {6, 64, 128}) {
      for (const int64_t left : {0, 63, 130, 1000}) {
        for (const int64_t kv_heads : {1, 2, 4}) {
          INFO(dtype << ", width " << width << ", left " << left << ", kv heads " << kv_heads);
          const auto random = [&](int64_t heads) {
            return at::randn({2, 201, heads, width}, at::kDouble).to(dtype);
          };
          const std::vector<at::Tensor> inputs = {random(4), random(kv_heads), random(kv_heads)};
          const at::Tensor upstream = random(4);
          std::vector<at::Tensor> on_device, precise;
          for (const at::Tensor& x : inputs) {
            on_device.push_back(x.cuda());
            precise.push_back(x.to(at::kDouble));
          }
          const auto actual = evaluate(windowed_attention, on_device, upstream.cuda(), left);
          const auto expected =
              evaluate(reference::windowed_attention, precise, upstream.to(at::kDouble), left);
          const double sums = 20 * unit_roundoff(dtype == at::kDouble ? at::kDouble : at::kFloat);
          for (size_t i = 0; i < actual.size(); ++i) {
            // FlashAttention rounds weights and their gradients to the dtype before they are multiplied: a few
            // roundings of the dtype. TF32 is off by default, so float32 sums are float32.
            CHECK(relative_error(actual[i], expected[i]) < 8 * unit_roundoff(dtype) + sums);
            CHECK(actual[i].is_contiguous());
          }
        }
      }
    }
  }
}

TEST_CASE("windowed_attention on CUDA accepts strided and empty tensors and refuses what the CPU refuses",
          "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(2);
  const at::Tensor packed = at::randn({2, 100, 2, 48}).to(at::kBFloat16).cuda();
  const auto parts = packed.chunk(3, -1);
  const at::Tensor out = windowed_attention(parts[0], parts[1], parts[2], 40);
  CHECK(at::equal(
      out, windowed_attention(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous(), 40)));
  const at::Tensor empty = at::empty({2, 0, 2, 16}, packed.options()).requires_grad_(true);
  CHECK(torch::autograd::grad({windowed_attention(empty, empty, empty, 3).sum()}, {empty})[0].numel() == 0);
  CHECK_THROWS_WITH(windowed_attention(packed[0], packed, packed, 1), Contains("must be [B, T, heads, D]"));
  CHECK_THROWS_WITH(windowed_attention(packed, packed, packed, -1),
                    Contains("left must be 0 or more, got -1"));
  CHECK_THROWS_WITH(windowed_attention(packed, packed.cpu(), packed, 1), Contains("must be on one device"));
}
