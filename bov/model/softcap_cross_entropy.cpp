#include "bov/model/softcap_cross_entropy.h"

#include <torch/autograd.h>

#include <algorithm>

namespace bov {
namespace {

/// Logits in a chunk: about the second-level cache of a CPU core; enough to fill a GPU.
int64_t chunk_rows(const torch::Tensor& head) {
  const int64_t logits = head.is_cuda() ? int64_t{1} << 27 : int64_t{1} << 18;
  return std::max<int64_t>(16, logits / head.size(0));
}

torch::Dtype precise_dtype(const torch::Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

/// One chunk of rows: losses, and the softmax from which they come.
struct ChunkLoss {
  torch::Tensor losses;         ///< [n], 0 where the target is -1
  torch::Tensor probabilities;  ///< [n, V]
  torch::Tensor tangent;        ///< [n, V] tanh(scores/cap); undefined without a cap
};

ChunkLoss chunk_loss(const torch::Tensor& hidden,
                     const torch::Tensor& head,
                     const torch::Tensor& targets,
                     double cap) {
  const torch::Tensor scores = torch::linear(hidden, head).to(precise_dtype(hidden));
  ChunkLoss chunk;
  torch::Tensor logits = scores;
  torch::Tensor bound;
  if (cap > 0) {
    chunk.tangent = scores.mul_(1 / cap).tanh_();
    logits = chunk.tangent * cap;
    // No logit exceeds the cap, so the maximum need not be searched.
    bound = torch::full({1}, cap, logits.options());
  } else {
    bound = scores.amax(-1, /*keepdim=*/true);
  }
  const torch::Tensor counted = targets.ne(-1);
  const torch::Tensor target_logits = logits.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1);
  chunk.probabilities = logits.sub_(bound).exp_();
  const torch::Tensor sums = chunk.probabilities.sum(-1, /*keepdim=*/true);
  chunk.probabilities.div_(sums);
  chunk.losses = (sums.log() + bound).squeeze(-1).sub(target_logits).mul(counted);
  return chunk;
}

/// Turns a chunk's probabilities into the gradient of the summed losses in its scores.
torch::Tensor score_gradient(const ChunkLoss& chunk, const torch::Tensor& targets) {
  torch::Tensor gradient = chunk.probabilities;
  const torch::Tensor counted = targets.ne(-1).unsqueeze(-1);
  const torch::Tensor columns = targets.clamp_min(0).unsqueeze(-1);
  gradient.scatter_add_(-1, columns, torch::full({1, 1}, -1, gradient.options()).expand_as(columns));
  gradient.mul_(counted);
  if (chunk.tangent.defined()) {
    // d(cap·tanh(z/cap))/dz = 1 - tanh².
    gradient.addcmul_(gradient, chunk.tangent.square(), -1);
  }
  return gradient;
}

void check_arguments(const torch::Tensor& hidden, const torch::Tensor& head, const torch::Tensor& targets) {
  TORCH_CHECK(hidden.dim() == 2 && head.dim() == 2 && targets.dim() == 1 &&
                  hidden.size(0) == targets.size(0) && hidden.size(1) == head.size(1),
              "softcap_cross_entropy: expected hidden [N, C], head [V, C] and targets [N], got ",
              hidden.sizes(), ", ", head.sizes(), " and ", targets.sizes());
  TORCH_CHECK(targets.scalar_type() == torch::kInt64, "softcap_cross_entropy: targets must be int64, got ",
              targets.scalar_type());
  // On a GPU reading them would wait for it.
  if (!targets.is_cpu() || targets.numel() == 0) return;
  const auto [lowest, highest] = targets.aminmax();
  const int64_t low = lowest.item<int64_t>(), high = highest.item<int64_t>();
  TORCH_CHECK(low >= -1 && high < head.size(0), "softcap_cross_entropy: target ", low < -1 ? low : high,
              " is neither -1 nor in [0, ", head.size(0), ")");
}

class MeanLoss : public torch::autograd::Function<MeanLoss> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& hidden,
                               const torch::Tensor& head,
                               const torch::Tensor& targets,
                               double cap) {
    const int64_t counted = targets.ne(-1).sum().item<int64_t>();
    TORCH_CHECK(counted > 0, "mean_softcap_cross_entropy: all ", targets.size(0),
                " targets are -1; no loss counts");
    const torch::Tensor weight = head.to(hidden.scalar_type());
    torch::Tensor hidden_gradient = torch::empty_like(hidden);
    torch::Tensor head_gradient = torch::zeros_like(weight, weight.options().dtype(precise_dtype(hidden)));
    torch::Tensor total = torch::zeros({}, hidden.options().dtype(precise_dtype(hidden)));
    const int64_t rows = chunk_rows(head);
    for (int64_t start = 0; start < hidden.size(0); start += rows) {
      const int64_t end = std::min(start + rows, hidden.size(0));
      const torch::Tensor chunk_hidden = hidden.slice(0, start, end);
      const torch::Tensor chunk_targets = targets.slice(0, start, end);
      const ChunkLoss chunk = chunk_loss(chunk_hidden, weight, chunk_targets, cap);
      total.add_(chunk.losses.sum());
      const torch::Tensor gradient =
          score_gradient(chunk, chunk_targets).mul_(1.0 / counted).to(hidden.scalar_type());
      torch::Tensor destination = hidden_gradient.slice(0, start, end);
      torch::mm_out(destination, gradient, weight);
      if (head_gradient.scalar_type() == gradient.scalar_type()) {
        head_gradient.addmm_(gradient.t(), chunk_hidden);
      } else {
        head_gradient.add_(torch::mm(gradient.t(), chunk_hidden));
      }
    }
    context->save_for_backward({hidden_gradient, head_gradient.to(head.scalar_type())});
    return total.div_(counted);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor& upstream = gradients[0];
    return {saved[0] * upstream.to(saved[0].scalar_type()),
            saved[1] * upstream.to(saved[1].scalar_type()),
            {},
            {}};
  }
};

}  // namespace

torch::Tensor softcap(const torch::Tensor& scores, double cap) {
  const torch::Tensor precise = scores.to(precise_dtype(scores));
  return cap > 0 ? cap * torch::tanh(precise / cap) : precise;
}

torch::Tensor softcap_cross_entropy(const torch::Tensor& hidden,
                                    const torch::Tensor& head,
                                    const torch::Tensor& targets,
                                    double cap) {
  check_arguments(hidden, head, targets);
  torch::NoGradGuard no_grad;
  const torch::Tensor weight = head.to(hidden.scalar_type());
  torch::Tensor losses = torch::empty(targets.sizes(), hidden.options().dtype(precise_dtype(hidden)));
  const int64_t rows = chunk_rows(head);
  for (int64_t start = 0; start < hidden.size(0); start += rows) {
    const int64_t end = std::min(start + rows, hidden.size(0));
    losses.slice(0, start, end)
        .copy_(chunk_loss(hidden.slice(0, start, end), weight, targets.slice(0, start, end), cap).losses);
  }
  return losses;
}

torch::Tensor mean_softcap_cross_entropy(const torch::Tensor& hidden,
                                         const torch::Tensor& head,
                                         const torch::Tensor& targets,
                                         double cap) {
  check_arguments(hidden, head, targets);
  return MeanLoss::apply(hidden, head, targets, cap);
}

}  // namespace bov
