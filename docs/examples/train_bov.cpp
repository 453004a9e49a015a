// A two-layer GPT whose last layer takes its values from a Bank of Values learns to repeat a pattern.
#include <cstdio>

#include "bov/model/gpt.h"
#include "bov/optim/training_optimizer.h"
#include "bov/value/presets.h"

int main() {
  torch::manual_seed(0);
  bov::GPTOptions options;
  options.n_layer = 2, options.n_embd = 64, options.n_head = options.n_kv_head = 2;
  options.vocab_size = 100, options.sequence_length = 32;
  options.value = bov::value_preset("bov");  // γ·E_V[token id] in the last third of the layers
  bov::GPT model(options);

  constexpr int64_t kSteps = 50;
  bov::TrainingOptimizer optimizer(model->named_parameters(), options.n_embd, bov::OptimizerRates{},
                                   {.steps = kSteps, .warmup_steps = 5}, torch::kFloat32);
  const torch::Tensor text = torch::arange(8 * 33).view({8, 33}).remainder(7);
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = model->loss(text.slice(1, 0, 32), text.slice(1, 1));
    loss.backward();
    optimizer.step(step);
    if (step % 10 == 9) std::printf("step %2d  loss %.3f\n", int(step) + 1, loss.item<double>());
  }
  auto& layer = *model->blocks[1]->as<bov::BlockImpl>()->attention->value;
  std::printf("gamma %.3f, table of %d rows\n", layer.gamma.item<double>(), int(layer.bank()->table.size(0)));
}
