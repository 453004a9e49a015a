#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bov/model/gpt_options.h"

namespace bov::experiments {

/// Decoding with the paper's 12-layer model: a batch of `batch` sequences, each of `tokens` tokens so far.
struct DecodeProblem {
  std::string work;     ///< what is timed
  std::string windows;  ///< letters of the layers' pattern; L reaches over all tokens
  int64_t tokens = 0;
  int64_t batch = 0;

  std::string text() const {
    return work + ", " + (windows == "L" ? "all long" : windows) + ", T " + std::to_string(tokens / 1024) +
           "K, batch " + std::to_string(batch);
  }
  nlohmann::json facts() const {
    return {{"work", work}, {"windows", windows}, {"context_tokens", tokens}, {"batch", batch}};
  }
  GPTOptions options(const ValueSpec& value) const {
    GPTOptions options;
    options.window_pattern = windows;
    options.value = value;
    return options;
  }
};

}  // namespace bov::experiments
