#include "experiments/eval/validation.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

#include "experiments/data/packing_loader.h"
#include "experiments/data/validation_loader.h"
#include "experiments/train/token_batch.h"

namespace bov::experiments {
namespace {

using BatchSource = std::function<std::optional<TokenBatch>()>;

BatchSource whole_split_batches(const DataFolder& data,
                                c10::Device device,
                                const ValidationOptions& options) {
  return [loader = ValidationLoader(data.validation(), data.bos(), options.rows, options.sequence_length),
          device]() mutable -> std::optional<TokenBatch> {
    const auto batch = loader.next();
    if (!batch) return std::nullopt;
    return TokenBatch{token_tensor(batch->inputs, batch->rows, device),
                      token_tensor(batch->targets, batch->rows, device)};
  };
}

BatchSource published_batches(const DataFolder& data, c10::Device device, const ValidationOptions& options) {
  const PackingOptions packing{.rows = options.rows,
                               .sequence_length = options.sequence_length,
                               .buffer_documents = options.buffer_documents,
                               .shuffle = false,
                               .as_published = true};
  return [loader = PackingLoader(data.validation(), data.bos(), packing), device]() mutable {
    const auto batch = loader.next();
    return std::optional(shifted_batch(batch.tokens, batch.rows, device));
  };
}

int64_t batch_limit(const ValidationOptions& options) {
  if (options.tokens == 0) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(1, options.tokens / (options.rows * options.sequence_length));
}

void check(const GPT& model, const DataFolder& data, const ValidationOptions& options) {
  if (data.vocab_size() > model->options().vocab_size) {
    throw std::invalid_argument("the data's tokenizer has " + std::to_string(data.vocab_size()) +
                                " tokens, the model only " + std::to_string(model->options().vocab_size));
  }
  if (options.as_published && options.tokens == 0) {
    throw std::invalid_argument(
        "evaluation.tokens is 0 (the whole split), which packing: as_published cannot cover; "
        "give a number of tokens");
  }
}

}  // namespace

std::optional<ValidationResult> evaluate(GPT& model,
                                         const DataFolder& data,
                                         c10::Device device,
                                         const ValidationOptions& options,
                                         const std::function<bool()>& stop) {
  check(model, data, options);
  const torch::NoGradGuard no_grad;
  const auto next_batch = options.as_published ? published_batches(data, device, options)
                                               : whole_split_batches(data, device, options);
  const auto token_bytes = at::tensor(data.token_bytes(), at::kLong).to(device);
  // Sums stay on the device, so that a GPU never waits for the host inside the loop.
  auto nats = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
  auto counts = at::zeros({2}, at::TensorOptions(at::kLong).device(device));
  for (int64_t i = 0; i < batch_limit(options); ++i) {
    if (stop && stop()) return std::nullopt;
    const auto batch = next_batch();
    if (!batch) break;
    const auto losses = model->token_losses(batch->ids, batch->targets);
    const auto bytes = token_bytes.index({batch->targets.clamp_min(0)}).masked_fill_(batch->targets < 0, 0);
    const auto is_text = bytes > 0;
    nats += losses.to(at::kDouble).masked_fill(~is_text, 0.0).sum();
    counts += at::stack({is_text.sum(), bytes.sum()});
  }
  ValidationResult result;
  result.nats = nats.item<double>();
  result.tokens = counts[0].item<int64_t>();
  result.bytes = counts[1].item<int64_t>();
  result.bits_per_byte = result.nats / (std::numbers::ln2 * static_cast<double>(result.bytes));
  result.loss = result.nats / static_cast<double>(result.tokens);
  return result;
}

}  // namespace bov::experiments
