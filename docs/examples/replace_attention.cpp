// Pre-norm blocks of somebody else's around torch::nn::MultiheadAttention, then with bov::CausalSelfAttention in its place:
// the values of the last layer are a Bank of Values. Both models learn; bov's layer equals its formula.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <cstdio>

#include "bov/attention/causal_self_attention.h"
#include "bov/value/presets.h"

constexpr int64_t kVocabulary = 64, kWidth = 64, kHeads = 4, kLayers = 3;

bov::CausalSelfAttention bov_attention(bool from_bank) {
  return bov::CausalSelfAttention(bov::CausalSelfAttentionOptions(kWidth, kHeads)
                                      .vocab_size(kVocabulary)
                                      .value(from_bank ? bov::value_preset("bov") : bov::ValueSpec{}));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(bool with_bov, bool last) {
    register_module("norm1", norm1), register_module("norm2", norm2);
    register_module("up", up), register_module("down", down);
    if (with_bov) {
      replacement = register_module("attention", bov_attention(/*from_bank=*/last));
    } else {
      original = register_module("attention", torch::nn::MultiheadAttention(kWidth, kHeads));
    }
  }

  torch::Tensor attend(const torch::Tensor& x, const torch::Tensor& x0, const torch::Tensor& token_ids) {
    if (replacement) return replacement->forward({.hidden = x, .x0 = x0, .token_ids = token_ids});
    const torch::Tensor by_time = x.transpose(0, 1);  // MultiheadAttention takes [T, B, C]
    const torch::Tensor future = torch::full({x.size(1), x.size(1)}, -INFINITY).triu(1);
    return std::get<0>(original(by_time, by_time, by_time, torch::Tensor(), true, future)).transpose(0, 1);
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& x0, const torch::Tensor& token_ids) {
    x = x + attend(norm1(x), x0, token_ids);
    return x + down(torch::gelu(up(norm2(x))));
  }

  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})},
      norm2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
  torch::nn::MultiheadAttention original{nullptr};
  bov::CausalSelfAttention replacement{nullptr};
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  explicit TransformerImpl(bool with_bov) {
    register_module("embedding", embedding), register_module("blocks", blocks), register_module("head", head);
    for (int64_t layer = 0; layer < kLayers; ++layer)
      blocks->push_back(Block(with_bov, layer == kLayers - 1));
  }
  torch::Tensor forward(const torch::Tensor& token_ids) {
    const torch::Tensor x0 = embedding(token_ids);
    torch::Tensor x = x0;
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x, x0, token_ids);
    return head(x);
  }
  torch::nn::Embedding embedding{kVocabulary, kWidth};
  torch::nn::ModuleList blocks;
  torch::nn::Linear head{kWidth, kVocabulary};
};
TORCH_MODULE(Transformer);

void train(const char* name, Transformer model) {
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  const torch::Tensor text = (torch::arange(8 * 25).view({8, 25}) * 3).remainder(11);
  for (int step = 0; step <= 40; ++step) {
    optimizer.zero_grad();
    const torch::Tensor logits = model(text.slice(1, 0, 24));
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(1, 1).flatten());
    loss.backward();
    optimizer.step();
    if (step % 40 == 0) std::printf("%-24s step %2d  loss %.3f\n", name, step, loss.item<double>());
  }
}

/// What bov's layer computes, from its parameters: x [B, T, C], token_ids [B, T] -> [B, T, C].
torch::Tensor formula(bov::CausalSelfAttentionImpl& layer,
                      const torch::Tensor& x,
                      const torch::Tensor& token_ids) {
  const int64_t width = kWidth / kHeads;
  const auto angles =
      torch::outer(torch::arange(x.size(1)), torch::pow(100000., -torch::arange(0, width, 2) / width));
  const torch::Tensor cos = angles.cos().unsqueeze(1), sin = angles.sin().unsqueeze(1);
  const auto heads = [&](const torch::Tensor& y) { return y.view({x.size(0), x.size(1), kHeads, width}); };
  const auto prepare = [&](const torch::Tensor& weight) {  // projected, turned, normalised, times 1.2
    const auto half = heads(x.matmul(weight.t())).chunk(2, -1);
    const torch::Tensor y = torch::cat({half[0] * cos + half[1] * sin, half[1] * cos - half[0] * sin}, -1);
    return (1.2 * y / (y.square().mean(-1, true) + 1.2e-7).sqrt()).transpose(1, 2);
  };
  const torch::Tensor v = heads(layer.value->gamma * torch::embedding(layer.value->bank()->table, token_ids));
  const torch::Tensor scores = prepare(layer.query).matmul(prepare(layer.key).mT()) / std::sqrt(width);
  const torch::Tensor future = torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(1);
  const torch::Tensor sums = scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v.transpose(1, 2));
  return sums.transpose(1, 2).reshape({x.size(0), x.size(1), kWidth}).matmul(layer.output.t());
}

int main() {
  torch::manual_seed(0);
  train("MultiheadAttention", Transformer(/*with_bov=*/false));
  Transformer model(/*with_bov=*/true);
  train("bov::CausalSelfAttention", model);

  auto& layer = *model->blocks[kLayers - 1]->as<BlockImpl>()->replacement;
  const torch::Tensor x = torch::randn({2, 20, kWidth}),
                      token_ids = torch::randint(kVocabulary, {2, 20}, torch::kLong);
  const torch::Tensor difference =
      layer.forward({.hidden = x, .token_ids = token_ids}) - formula(layer, x, token_ids);
  std::printf("largest difference from the formula %.1e\n", difference.abs().max().item<double>());
}
