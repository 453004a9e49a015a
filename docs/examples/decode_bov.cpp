// Decodes with a Bank of Values: layers whose values are a function of the token id keep ids instead of a V cache.
#include <cstdio>

#include "bov/decode/decoder.h"
#include "bov/decode/sampler.h"
#include "bov/value/presets.h"

int main() {
  bov::GPTOptions options;
  options.n_layer = 6, options.n_embd = 96, options.n_head = options.n_kv_head = 3, options.vocab_size = 1000;
  options.value = bov::value_preset("bov");
  bov::GPT model(options);  // load_parameters(*model, load_safetensors(file)) brings a trained one

  bov::Decoder decoder(model, {.long_window = bov::LongWindow::unlimited});
  bov::DecodeState state = decoder.start();
  bov::Sampler sampler({.temperature = 0.8, .top_k = 50}, /*seed=*/1);
  torch::Tensor logits = decoder.next_logits(torch::tensor({{17, 4, 99}}, torch::kInt64), state);
  for (int i = 0; i < 8; ++i) {
    const int64_t token = sampler.next(logits[0]);
    std::printf("%d ", static_cast<int>(token));
    logits = decoder.next_logits(torch::full({1, 1}, token, torch::kInt64), state);
  }
  const bov::CacheBytes bytes = state.bytes();
  std::printf("\n%d tokens; bytes of keys %d, values %d, token ids %d\n",
              static_cast<int>(state.lengths()[0]), static_cast<int>(bytes.keys),
              static_cast<int>(bytes.values), static_cast<int>(bytes.token_ids));
}
