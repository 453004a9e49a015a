#include "experiments/convert/calibration.h"

#include "bov/model/rms_norm.h"
#include "experiments/config/run_options.h"
#include "experiments/data/document_order.h"
#include "experiments/train/token_batch.h"
#include "support/temporary_folder.h"
#include "support/tensor_compare.h"
#include "train/tiny_run.h"

namespace bov::experiments {
namespace {

using testing::relative_error;
using testing::TemporaryFolder;

RunConfig standard_config() {
  RunConfig config = tiny_config(1);
  config.value = {};
  config.model.parameter_dtype = config.model.table_dtype = config.model.compute_dtype = "float64";
  return config;
}

GPT random_standard_model(const RunConfig& config) {
  torch::manual_seed(5);
  GPT model(to_gpt_options(config, torch::kCPU));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.2);
  return model;
}

torch::Tensor table_of(const ValueMeans& means, int64_t layer) {
  const BankModel model = means.bank_model();
  return model.tables.at("blocks." + std::to_string(layer) + ".attention.value.bank.table")
      .rows(0, kVocabulary);
}

/// How often each id stands in the first `tokens` tokens of the training split, and bos before every 31 of a document.
torch::Tensor count_ids(const DataFolder& data, const PackingOptions& packing, int64_t tokens) {
  const TokenDocuments& documents = data.train();
  std::vector<uint32_t> order(static_cast<size_t>(documents.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  if (packing.shuffle) order = shuffled_documents(documents.size(), packing.seed, 0);
  std::vector<double> counts(kVocabulary);
  for (const uint32_t document : order) {
    const int64_t taken = std::min(documents.length(document), tokens);
    tokens -= taken;
    std::vector<int32_t> ids(static_cast<size_t>(taken));
    documents.copy(document, 0, ids);
    for (int64_t i = 0; i < taken; ++i) {
      if (i % 31 == 0) ++counts[static_cast<size_t>(data.bos())];
      ++counts[static_cast<size_t>(ids[static_cast<size_t>(i)])];
    }
  }
  return torch::tensor(counts, torch::kFloat64);
}

TEST_CASE("every token of the text counts exactly once in the means, however the run packs its rows") {
  RunConfig config = standard_config();
  config.model.smear = false;
  config.data.packing = GENERATE("best_fit", "as_published");
  config.train.micro_batch = config.data.packing == "best_fit" ? 7 : 1;
  const DataFolder data = DataFolder::open(data_path());
  GPT model = random_standard_model(config);
  const torch::NoGradGuard no_grad;
  // Without smear the values of layer 0 depend on the token alone, so they need no context.
  const auto& projection = model->blocks[0]->as<BlockImpl>()->attention->value->projection;
  const torch::Tensor values = torch::linear(rms_norm(rms_norm(model->embedding)), projection);
  const int64_t all = data.train().tokens();
  for (const int64_t tokens : {int64_t{0}, int64_t{1}, int64_t{777}, all + 5}) {
    INFO(config.data.packing << " " << tokens);
    const int64_t expected = tokens == 0 ? all : std::min(tokens, all);
    ValueMeans means(model, std::vector<int64_t>{0});
    int64_t last_seen = 0;
    CHECK(add_text(means, data, config, torch::kCPU, tokens, [&](int64_t seen, int64_t wanted) {
            CHECK((seen > last_seen && wanted == expected));
            last_seen = seen;
          }) == expected);
    CHECK(last_seen == expected);
    const torch::Tensor counts = count_ids(data, packing_options(config), expected);
    CHECK(means.tokens() == counts.sum().item<double>());
    CHECK(means.rows_seen() == counts.count_nonzero().item<int64_t>());
    // Ids that were not seen have the mean over all positions, in which a token that counted twice would weigh twice.
    const torch::Tensor mean = counts.matmul(values) / counts.sum();
    const torch::Tensor table = torch::where(counts.unsqueeze(1) > 0, values, mean);
    REQUIRE(means.rows_seen() < kVocabulary);
    // Thousands of roundings of the running means.
    CHECK(relative_error(table_of(means, 0), table) < 1e-12);
  }
}

/// A run that recorded nothing: its tokenizer is that of data_path().
RunCheckpoint run_of(const RunConfig& config) {
  return {.run_folder = scratch() / "no_such_run", .config = config};
}

TEST_CASE("a text shorter than a batch is seen once, each token in its context") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.jsonl") << R"({"text": "the cat sees the river"})" << '\n';
  const RunConfig config = standard_config();
  const DataFolder data = calibration_data(run_of(config), folder / "text.jsonl", folder / "shards");
  REQUIRE(data.train().size() == 1);
  const int64_t length = data.train().length(0);
  REQUIRE((length > 4 && length < 31));
  std::vector<int32_t> ids(static_cast<size_t>(length));
  data.train().copy(0, 0, ids);
  ids.insert(ids.begin(), data.bos());
  const torch::Tensor text = token_tensor(ids, 1, torch::kCPU);
  GPT model = random_standard_model(config);
  for (const int64_t tokens : {int64_t{0}, int64_t{4}, length, int64_t{100}}) {
    const int64_t expected = tokens == 0 ? length : std::min(tokens, length);
    ValueMeans means(model, TargetRule::every), by_hand(model, TargetRule::every);
    CHECK(add_text(means, data, config, torch::kCPU, tokens) == expected);
    by_hand.add(text.slice(1, 0, 1 + expected));
    CHECK(means.tokens() == 1 + expected);
    CHECK(means.rows_seen() == by_hand.rows_seen());
    // Products of other shapes may sum in another order.
    for (const int64_t layer : {0, 1, 2})
      CHECK(relative_error(table_of(means, layer), table_of(by_hand, layer)) < 1e-12);
  }
}

TEST_CASE("a text without a token for training is refused by name") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.jsonl") << R"({"text": "the cat"})" << '\n';
  DocumentReader documents({(folder / "text.jsonl").string()});
  // The one document falls in the validation split, as nearly every one does.
  build_data(documents, {.tokenizer = data_path() / "tokenizer", .validation_per_mille = 999},
             folder / "shards");
  CHECK_THROWS_WITH(calibration_data(run_of(standard_config()), folder / "shards", folder / "unused"),
                    Catch::Contains("shards: there is no token in it"));
}

}  // namespace
}  // namespace bov::experiments
