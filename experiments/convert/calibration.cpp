#include "experiments/convert/calibration.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "experiments/data/data_builder.h"
#include "experiments/data/data_files.h"
#include "experiments/data/document_order.h"
#include "experiments/data/validation_loader.h"
#include "experiments/generate/text_generation.h"
#include "experiments/train/token_batch.h"

namespace bov::experiments {
namespace {

/// Ids [rows, T] of a batch with T - 1 targets a row, and which of them are no padding.
struct CountedIds {
  at::Tensor ids;
  at::Tensor counted;
};

CountedIds counted_ids(const ValidationBatch& batch, c10::Device device) {
  const at::Tensor inputs = token_tensor(batch.inputs, batch.rows, device);
  const at::Tensor targets = token_tensor(batch.targets, batch.rows, device);
  // The last target of a full row is no input. Ids of padding are of no account: no earlier position sees them.
  const at::Tensor last = targets.slice(1, -1).clamp_min(0);
  const at::Tensor counted = targets.ge(0);
  return {at::cat({inputs, last}, 1), at::cat({counted.slice(1, 0, 1), counted}, 1)};
}

DataFolder open_shards(const RunCheckpoint& run,
                       const std::filesystem::path& text,
                       const std::filesystem::path& output) {
  if (DataFolder::exists(text)) {
    run_tokenizer(run, text / kTokenizerFolder);
    return DataFolder::open(text);
  }
  const auto tokenizer = std::filesystem::path(run.config.data.shards) / kTokenizerFolder;
  run_tokenizer(run, tokenizer);
  DocumentReader documents({text.string()});
  build_data(documents, {.tokenizer = tokenizer, .validation_per_mille = 0}, output);
  return DataFolder::open(output);
}

}  // namespace

int64_t add_text(ValueMeans& means,
                 const DataFolder& shards,
                 const RunConfig& config,
                 c10::Device device,
                 int64_t tokens,
                 const std::function<void(int64_t seen, int64_t wanted)>& on_batch) {
  const TokenDocuments& documents = shards.train();
  const int64_t wanted = tokens == 0 ? documents.tokens() : std::min(tokens, documents.tokens());
  const PackingOptions packing = packing_options(config);
  DocumentSelection selection{.tokens = wanted};
  if (packing.shuffle) selection.order = shuffled_documents(documents.size(), packing.seed, /*epoch=*/0);
  ValidationLoader loader(documents, shards.bos(), packing.rows, packing.sequence_length - 1,
                          std::move(selection));
  int64_t seen = 0;
  while (const auto batch = loader.next()) {
    const CountedIds rows = counted_ids(*batch, device);
    means.add(rows.ids, rows.counted);
    seen += std::ranges::count_if(batch->targets, [&](int32_t id) { return id >= 0 && id != shards.bos(); });
    if (on_batch) on_batch(seen, wanted);
  }
  return seen;
}

DataFolder calibration_data(const RunCheckpoint& run,
                            const std::filesystem::path& text,
                            const std::filesystem::path& output) {
  DataFolder shards = open_shards(run, text, output);
  if (shards.train().tokens() == 0) throw std::runtime_error(text.string() + ": there is no token in it");
  return shards;
}

}  // namespace bov::experiments
