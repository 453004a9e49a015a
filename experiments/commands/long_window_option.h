#pragma once

#include <CLI/CLI.hpp>

#include "bov/decode/cache_layout.h"

namespace bov::experiments {

/// The option --long-window of commands that lay out a decoder's caches; `window` is the default and takes the value.
inline void add_long_window_option(CLI::App& command, LongWindow& window) {
  command.add_option("--long-window", window, "How far back L layers see: as trained, or unlimited")
      ->transform(CLI::CheckedTransformer(CLI::TransformPairs<LongWindow>{
          {"trained", LongWindow::trained}, {"unlimited", LongWindow::unlimited}}))
      ->default_str("trained");
}

}  // namespace bov::experiments
