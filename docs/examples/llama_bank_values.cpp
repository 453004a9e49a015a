// A Llama of somebody else's (RoPE, grouped-query attention, RMSNorm with gain, SwiGLU) whose last layer takes its
// values from a Bank of Values. What bov changes is marked with "bov"; all else is plain LibTorch.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cstdio>

#include "bov/value/bank_of_values.h"

constexpr int64_t kVocabulary = 64, kWidth = 64, kLayers = 3, kHeads = 4, kKvHeads = 2;
constexpr int64_t kHeadWidth = kWidth / kHeads, kHidden = 160;

torch::nn::Linear linear(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

struct RMSNormImpl : torch::nn::Module {
  RMSNormImpl() : gain(register_parameter("gain", torch::ones({kWidth}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return gain * x * torch::rsqrt(x.square().mean(-1, true) + 1e-5);
  }
  torch::Tensor gain;
};
TORCH_MODULE(RMSNorm);

/// x [B, T, heads, D] with each pair (j, j + D/2) turned by position·10000^(-2j/D).
torch::Tensor rotate(const torch::Tensor& x) {
  const auto angles = torch::outer(torch::arange(x.size(1)),
                                   torch::pow(10000., -torch::arange(0, kHeadWidth, 2) / kHeadWidth));
  const torch::Tensor cos = angles.cos().unsqueeze(1), sin = angles.sin().unsqueeze(1);
  const auto half = x.chunk(2, -1);
  return torch::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1);
}

struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(bool from_bank) {
    register_module("wq", wq), register_module("wk", wk), register_module("wo", wo);
    if (from_bank) {  // bov: a table and one number instead of a projection
      bank = register_module("bank", bov::BankOfValues(kVocabulary, kKvHeads, kHeadWidth));
      gamma = register_parameter("gamma", torch::ones({1}));
    } else {
      wv = register_module("wv", linear(kWidth, kKvHeads * kHeadWidth));
    }
  }

  torch::Tensor values(const torch::Tensor& x, const torch::Tensor& token_ids) {
    if (bank) return bank->forward(token_ids, std::nullopt, gamma);  // bov: [B, T, Hkv, D], x is not read
    return wv(x).view({x.size(0), x.size(1), kKvHeads, kHeadWidth});
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& token_ids) {
    const int64_t batch = x.size(0), length = x.size(1);
    const torch::Tensor q = rotate(wq(x).view({batch, length, kHeads, kHeadWidth}));
    const torch::Tensor k = rotate(wk(x).view({batch, length, kKvHeads, kHeadWidth}));
    const auto per_head = [](const torch::Tensor& t) {
      return t.repeat_interleave(kHeads / kKvHeads, 2).transpose(1, 2);
    };
    const torch::Tensor heads = torch::scaled_dot_product_attention(
        q.transpose(1, 2), per_head(k), per_head(values(x, token_ids)), {}, 0.0, /*is_causal=*/true);
    return wo(heads.transpose(1, 2).reshape({batch, length, kWidth}));
  }

  torch::nn::Linear wq = linear(kWidth, kWidth), wk = linear(kWidth, kKvHeads*kHeadWidth), wv{nullptr},
                    wo = linear(kWidth, kWidth);
  bov::BankOfValues bank{nullptr};
  torch::Tensor gamma;
};
TORCH_MODULE(Attention);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(bool from_bank) : attention(from_bank) {
    register_module("attention", attention), register_module("attention_norm", attention_norm);
    register_module("mlp_norm", mlp_norm);
    register_module("w1", w1), register_module("w2", w2), register_module("w3", w3);
  }
  torch::Tensor forward(torch::Tensor x, const torch::Tensor& token_ids) {
    x = x + attention(attention_norm(x), token_ids);
    const torch::Tensor h = mlp_norm(x);
    return x + w2(torch::silu(w1(h)) * w3(h));
  }
  Attention attention;
  RMSNorm attention_norm, mlp_norm;
  torch::nn::Linear w1 = linear(kWidth, kHidden), w2 = linear(kHidden, kWidth), w3 = linear(kWidth, kHidden);
};
TORCH_MODULE(Block);

struct LlamaImpl : torch::nn::Module {
  LlamaImpl() {
    register_module("embedding", embedding), register_module("blocks", blocks);
    register_module("norm", norm), register_module("head", head);
    for (int64_t layer = 0; layer < kLayers; ++layer) blocks->push_back(Block(layer == kLayers - 1));
  }
  torch::Tensor forward(const torch::Tensor& token_ids) {
    torch::Tensor x = embedding(token_ids);
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x, token_ids);
    return head(norm(x));
  }
  torch::nn::Embedding embedding{kVocabulary, kWidth};
  torch::nn::ModuleList blocks;
  RMSNorm norm;
  torch::nn::Linear head = linear(kWidth, kVocabulary);
};
TORCH_MODULE(Llama);

int main() {
  torch::manual_seed(0);
  Llama model;
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  const torch::Tensor text = (torch::arange(8 * 25).view({8, 25}) * 3).remainder(11);
  constexpr int kSteps = 40;
  for (int step = 0; step <= kSteps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor logits = model(text.slice(1, 0, 24));
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(1, 1).flatten());
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::printf("step %2d  loss %.3f\n", step, loss.item<double>());
  }

  AttentionImpl& last = *model->blocks[kLayers - 1]->as<BlockImpl>()->attention;
  const torch::Tensor plain = last.gamma * torch::embedding(last.bank->table, text);
  const torch::Tensor difference = last.values({}, text).flatten(-2) - plain;
  std::printf("gamma %.3f; largest difference from gamma times an embedding %.1e\n",
              last.gamma.item<double>(), difference.abs().max().item<double>());
}
