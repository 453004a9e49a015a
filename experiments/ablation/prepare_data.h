#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/train/progress.h"

namespace bov::experiments {

struct GridConfig;

/// Makes every relative data path of the grid (shards, corpus, tokenizer) one inside `folder`.
void set_data_folder(GridConfig& grid, const std::filesystem::path& folder);

/// The program that `prepare:` runs with the profile and the folder of the text: scripts/fetch_corpus.
std::vector<std::string> default_fetch_command();

/// Carries out the grid's `prepare:` section, if it has one: fetches the corpus, trains the tokenizer and builds the token
/// shards of the base config. A step is skipped if its output was made from the same inputs, as a file
/// `prepared.json` in it tells; an output without that file was made by hand and is used as it is. Each folder appears
/// whole or not at all. A second process that prepares the same data waits for the first. Throws std::runtime_error
/// naming the step that failed and the last line it said.
void prepare_data(const GridConfig& grid, const std::vector<std::string>& fetch_command, Progress& progress);

}  // namespace bov::experiments
