#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "bov/model/gpt.h"
#include "experiments/data/data_folder.h"

namespace bov::experiments {

struct ValidationOptions {
  int64_t rows = 16;               ///< sequences a forward pass
  int64_t sequence_length = 2048;  ///< T
  /// Places for targets: rounded down to whole batches, at least one; the pass ends earlier if the split does.
  /// 0: the whole split, in which every token of the text is a target exactly once.
  int64_t tokens = 0;
  /// Rows made by the published training loader instead, without shuffling and around the split as often as `tokens`
  /// asks for; it crops long documents, so it cannot cover the whole split.
  bool as_published = false;
  int64_t buffer_documents = 1000;  ///< of that loader
};

struct ValidationResult {
  double bits_per_byte = 0;  ///< nats / (ln 2 · bytes)
  double loss = 0;           ///< nats / tokens
  double nats = 0;
  int64_t tokens = 0;  ///< targets that stand for text; bos and padding count neither here nor in nats
  int64_t bytes = 0;   ///< of those targets
};

/// Bits per byte on the validation split, always from its start (arXiv 2606.02780, section 4). Nats are summed in
/// float64, bytes as integers with the true length of each token. `model` must be on `device`. Before each batch
/// `stop` is asked, if given: once it answers true nothing is returned. Throws std::invalid_argument for a data folder
/// whose vocabulary is larger than the model's, and for as_published with tokens = 0.
std::optional<ValidationResult> evaluate(GPT& model,
                                         const DataFolder& data,
                                         c10::Device device,
                                         const ValidationOptions& options,
                                         const std::function<bool()>& stop = {});

}  // namespace bov::experiments
