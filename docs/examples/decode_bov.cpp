// Decodes with a Bank of Values: layers whose values are a function of the token id keep ids instead of a V cache.
#include <iostream>

#include "bov/decode/decoder.h"
#include "bov/decode/sampler.h"
#include "bov/value/presets.h"

int main() {
  bov::GPTOptions options{.vocab_size = 1000, .n_layer = 6, .n_head = 3, .n_kv_head = 3, .n_embd = 96};
  options.value = bov::value_preset("bov");
  bov::GPT model(options);  // load_parameters(*model, load_safetensors(file)) brings a trained one
  bov::Decoder decoder(model, {.long_window = bov::LongWindow::unlimited});
  bov::DecodeState state = decoder.start();
  bov::Sampler sampler({.temperature = 0.8, .top_k = 50}, /*seed=*/1);
  torch::Tensor logits = decoder.next_logits(torch::tensor({{17, 4, 99}}, torch::kInt64), state);
  for (int i = 0; i < 8; ++i) {
    const int64_t token = sampler.next(logits[0]);
    std::cout << token << ' ';
    logits = decoder.next_logits(torch::full({1, 1}, token, torch::kInt64), state);
  }
  const bov::CacheBytes bytes = state.bytes();
  std::cout << "\nbytes of keys " << bytes.keys << ", values " << bytes.values << ", token ids "
            << bytes.token_ids << '\n';
}
