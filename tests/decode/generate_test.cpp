#include <torch/types.h>

#include <cmath>
#include <limits>

#include "bov/decode/bank_table.h"
#include "bov/decode/generator.h"
#include "bov/io/mapped_tensors.h"
#include "bov/io/module_state.h"
#include "bov/value/presets.h"
#include "decode/tiny_model.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using testing::bitwise_equal;
using testing::random_ids;
using testing::random_model;
using testing::relative_error;
using testing::TemporaryFolder;
using testing::tiny_options;

GPT bank_model(torch::Dtype dtype, bool shared = false) {
  GPTOptions options = tiny_options(dtype);
  options.value = value_preset("bov");
  options.value.shared = shared;
  return random_model(options);
}

TokenSequence tokens(const torch::Tensor& ids) {
  const torch::Tensor flat = ids.flatten().contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

/// The same parameters in a model whose banks stay in the file `path`.
GPT mapped_model(GPT& model, const std::filesystem::path& path) {
  save_safetensors(path, module_state(*model));
  GPTOptions options = model->options();
  options.bank_device = torch::kMeta;
  GPT mapped(options);
  load_parameters(*mapped, load_safetensors(path));
  return mapped;
}

TEST_CASE("a sampler draws what its options say") {
  const torch::Tensor logits = torch::tensor({1.0, 3.0, 2.0, -1.0});
  CHECK(Sampler({.temperature = 0}, 1).next(logits) == 1);
  CHECK(Sampler({.temperature = 100, .top_k = 1}, 1).next(logits) == 1);
  CHECK(Sampler({.temperature = 100, .top_p = 1e-9}, 1).next(logits) == 1);

  constexpr int64_t kDraws = 4000;
  const auto frequencies = [&](const SamplingOptions& options) {
    Sampler sampler(options, 3);
    std::vector<double> counts(4);
    for (int64_t i = 0; i < kDraws; ++i) counts[sampler.next(logits)] += 1.0 / kDraws;
    return torch::tensor(counts, torch::kFloat64);
  };
  const auto expected = [&](double temperature, const std::vector<int64_t>& kept) {
    torch::Tensor mask = torch::full({4}, -1e300, torch::kFloat64);
    for (const int64_t id : kept) mask[id] = 0;
    return torch::softmax(logits.to(torch::kFloat64) / temperature + mask, 0);
  };
  // Four standard deviations of a frequency: 4·sqrt(0.25 / 4000).
  constexpr double kMargin = 0.0317;
  CHECK(testing::max_abs_error(frequencies({}), expected(1, {0, 1, 2, 3})) < kMargin);
  CHECK(testing::max_abs_error(frequencies({.temperature = 3}), expected(3, {0, 1, 2, 3})) < kMargin);
  CHECK(testing::max_abs_error(frequencies({.temperature = 3, .top_k = 2}), expected(3, {1, 2})) < kMargin);
  // At temperature 3 the probabilities are 0.21, 0.40, 0.29 and 0.11.
  const torch::Tensor at_three = expected(3, {0, 1, 2, 3});
  const double best = at_three[1].item<double>(), second = at_three[2].item<double>();
  CHECK(testing::max_abs_error(frequencies({.temperature = 3, .top_p = best + second / 2}),
                               expected(3, {1, 2})) < kMargin);
  CHECK(frequencies({.temperature = 3, .top_p = best / 2})[1].item<double>() == Approx(1));

  CHECK_THROWS_WITH(Sampler({.temperature = -1}, 0), Catch::Contains("temperature is -1"));
  CHECK_THROWS_WITH(Sampler({.top_k = -1}, 0), Catch::Contains("top_k is -1"));
  CHECK_THROWS_WITH(Sampler({.top_p = 0}, 0), Catch::Contains("top_p is 0"));
  CHECK_THROWS_WITH(Sampler({}, 0).next(logits.view({2, 2})), Catch::Contains("[V]"));
}

TEST_CASE("a sampler refuses logits that are no numbers, and never draws what cannot be") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    const auto next = [&](std::vector<double> logits) {
      return Sampler({.temperature = temperature}, 1).next(torch::tensor(logits, torch::kFloat32));
    };
    CHECK_THROWS_WITH(next({1, NAN, 2}), Catch::Contains("nan; expected a finite number"));
    CHECK_THROWS_WITH(next({1, kInfinity}), Catch::Contains("the largest of 2 logits is inf"));
    CHECK_THROWS_WITH(next({-kInfinity, -kInfinity}), Catch::Contains("the largest of 2 logits is -inf"));
    CHECK(next({-kInfinity, -3, -kInfinity}) == 1);
  }
  // Quotients of 1e30 and 1e-300 are no numbers, their differences are.
  CHECK(Sampler({.temperature = 1e-300}, 1).next(torch::tensor({1e30, 2e30}, torch::kFloat64)) == 1);
}

TEST_CASE("greedy generation is the argmax of full forward passes, for prompts of different lengths") {
  GPT model = bank_model(torch::kFloat64);
  Decoder decoder(model);
  const std::vector<TokenSequence> prompts{tokens(random_ids(1, 150)), tokens(random_ids(1, 1)),
                                           tokens(random_ids(1, 20))};
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_new_tokens = 25;
  options.prefill_chunk = 64;
  const Generation generation = generate(decoder, prompts, options);
  const torch::NoGradGuard no_grad;
  for (size_t p = 0; p < prompts.size(); ++p) {
    TokenSequence sequence = prompts[p];
    for (int64_t i = 0; i < options.max_new_tokens; ++i) {
      const torch::Tensor logits = model->forward(torch::tensor(sequence, torch::kInt64).unsqueeze(0));
      sequence.push_back(logits[0][-1].argmax().item<int64_t>());
    }
    sequence.erase(sequence.begin(), sequence.begin() + static_cast<int64_t>(prompts[p].size()));
    CHECK(generation.sequences[p] == sequence);
  }
  CHECK(generation.prompt_tokens == 171);
  CHECK(generation.decode_tokens == 3 * 24);
  CHECK(generation.cache == cache_bytes(decoder.layout(), 174, 3));
}

TEST_CASE("a sequence's tokens depend on its prompt and seed alone") {
  GPT model = bank_model(torch::kFloat64);
  Decoder decoder(model);
  const TokenSequence prompt = tokens(random_ids(1, 30));
  GenerateOptions options;
  options.samples = 3;
  options.max_new_tokens = 12;
  options.seed = 5;
  const Generation three = generate(decoder, {prompt}, options);
  CHECK(generate(decoder, {prompt}, options).sequences == three.sequences);
  CHECK(three.sequences[0] != three.sequences[1]);
  options.samples = 1;
  for (int64_t sample = 0; sample < 3; ++sample) {
    options.seed = 5 + static_cast<uint64_t>(sample);
    CHECK(generate(decoder, {prompt}, options).sequences[0] == three.sequences[sample]);
  }
}

TEST_CASE("sequences end at stop tokens, at the limits and when the callback says so") {
  GPT model = bank_model(torch::kFloat64);
  Decoder decoder(model);
  const TokenSequence prompt = tokens(random_ids(1, 10));
  GenerateOptions options;
  options.samples = 4;
  options.max_new_tokens = 30;
  const Generation whole = generate(decoder, {prompt}, options);
  const int64_t stop = whole.sequences[2][7];
  options.stop_tokens = {stop};
  std::vector<TokenSequence> streamed(4);
  const Generation stopped = generate(decoder, {prompt}, options, [&](int64_t sequence, int64_t token) {
    streamed[sequence].push_back(token);
    return sequence != 3 || streamed[3].size() < 2;
  });
  CHECK(streamed == stopped.sequences);
  for (int64_t sample = 0; sample < 3; ++sample) {
    TokenSequence expected = whole.sequences[sample];
    const auto end = std::find(expected.begin(), expected.end(), stop);
    if (end != expected.end()) expected.erase(end + 1, expected.end());
    CHECK(stopped.sequences[sample] == expected);
  }
  CHECK(stopped.sequences[2].size() <= 8);
  CHECK(stopped.sequences[3].size() <= 2);
  options.stop_tokens.clear();
  options.max_length = 13;
  CHECK(generate(decoder, {prompt}, options).sequences[0].size() == 3);
  options.max_length = 10;
  CHECK_THROWS_WITH(generate(decoder, {prompt}, options),
                    Catch::Contains("prompt 0 has 10 tokens; expected fewer than max_length = 10"));
  CHECK_THROWS_WITH(generate(decoder, {prompt, {}}, {}), Catch::Contains("prompt 1 is empty"));
  CHECK_THROWS_WITH(generate(decoder, {}, {}), Catch::Contains("no prompt"));
  CHECK_THROWS_WITH(generate(decoder, {{1, 50}}, {}),
                    Catch::Contains("token 1 of prompt 0 is id 50") && Catch::Contains("another tokenizer"));
  options.samples = 0;
  CHECK_THROWS_WITH(generate(decoder, {prompt}, options), Catch::Contains("samples is 0"));
}

TEST_CASE("every store and both algorithms give the same tokens") {
  TemporaryFolder folder;
  GenerateOptions options;
  options.max_new_tokens = 20;
  options.samples = 2;
  const TokenSequence prompt = tokens(random_ids(1, 150));
  for (const bool shared : {false, true}) {
    GPT model = bank_model(torch::kFloat32, shared);
    Decoder reference(model);
    const Generation expected = generate(reference, {prompt}, options);
    const std::filesystem::path file = folder.path() / (shared ? "shared.safetensors" : "model.safetensors");
    GPT mapped = mapped_model(model, file);
    CHECK_THROWS_WITH(Decoder(mapped), Catch::Contains("has no memory"));
    for (const auto algorithm : {ops::BankAlgorithm::indirect, ops::BankAlgorithm::aggregated}) {
      Decoder device(model, {.algorithm = algorithm});
      CHECK(generate(device, {prompt}, options).sequences == expected.sequences);
      CHECK(device.banks().bytes().device == (shared ? 1 : 2) * 50 * 16 * 4);

      Decoder from_file(mapped, {.algorithm = algorithm},
                        make_mapped_bank_store(map_bank_tables(mapped, file)));
      CHECK(generate(from_file, {prompt}, options).sequences == expected.sequences);
      CHECK(from_file.banks().bytes().device == 0);
      CHECK(from_file.banks().bytes().file == (shared ? 1 : 2) * 50 * 16 * 4);

      const auto host =
          std::make_shared<HostBankStore>(map_bank_tables(mapped, file), torch::kCPU, torch::kFloat32);
      Decoder from_host(mapped, {.algorithm = algorithm}, host);
      CHECK(generate(from_host, {prompt}, options).sequences == expected.sequences);
      CHECK(from_host.banks().bytes().host == (shared ? 1 : 2) * 50 * 16 * 4);
    }
  }
}

TEST_CASE("every store names an id out of range, and goes on as if it had not been") {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "model.safetensors";
  GPT model = bank_model(torch::kFloat32);
  GPT mapped = mapped_model(model, file);
  for (const auto& store : std::vector<std::shared_ptr<BankStore>>{
           make_device_bank_store(bank_tables(model)), make_mapped_bank_store(map_bank_tables(mapped, file)),
           std::make_shared<HostBankStore>(bank_tables(model), torch::kCPU, torch::kFloat32)}) {
    for (const int64_t id : {-1, 50}) {
      CHECK_THROWS_WITH(
          store->row_numbers(torch::tensor({{7, static_cast<int>(id), 9}}, torch::kInt64)),
          Catch::Contains("token id " + std::to_string(id) + " is outside the table of 50 rows"));
    }
    const torch::Tensor rows = store->row_numbers(torch::tensor({{9, 7}}, torch::kInt64));
    for (const auto& [layer, table] : bank_tables(model)) {
      CHECK(bitwise_equal(store->table(layer).rows.index_select(0, rows[0]),
                          table.rows.index_select(0, torch::tensor({9, 7}, torch::kInt64))));
    }
  }
}

TEST_CASE("a host store fetches each row once, all new rows of a pass in one copy") {
  GPT model = bank_model(torch::kFloat32);
  HostBankStore store(bank_tables(model), torch::kCPU, torch::kFloat32);
  const auto ids = [](const std::vector<int64_t>& ids) {
    return torch::tensor(ids, torch::kInt64).unsqueeze(0);
  };
  CHECK(torch::equal(store.row_numbers(ids({9, 4, 9, 30})), ids({0, 1, 0, 2})));
  CHECK(store.copies() == 1);
  CHECK(store.rows_seen() == 3);
  CHECK(torch::equal(store.row_numbers(ids({30, 4})), ids({2, 1})));
  CHECK(store.copies() == 1);
  CHECK(torch::equal(store.row_numbers(ids({4, 0, 49})), ids({1, 3, 4})));
  CHECK(store.copies() == 2);
  for (const auto& [layer, table] : bank_tables(model)) {
    const torch::Tensor expected = table.rows.index_select(0, ids({9, 4, 30, 0, 49}).flatten());
    CHECK(bitwise_equal(store.table(layer).rows.slice(0, 0, 5), expected));
  }
  CHECK_THROWS_WITH(store.row_numbers(ids({50})),
                    Catch::Contains("token id 50 is outside the table of 50 rows"));
  // Two tables of at most 50 rows of 16 floats.
  CHECK(store.bytes().device == 2 * 50 * 16 * 4);
  CHECK_THROWS_WITH(HostBankStore({}, torch::kCPU, torch::kFloat32), Catch::Contains("no bank"));
}

TEST_CASE("int8 rows stand for their multiples, within half a step") {
  const torch::Tensor table = torch::randn({40, 16}) * torch::logspace(-6, 6, 40).unsqueeze(1);
  table[7].zero_();
  const BankTable quantized = quantize_rows(table);
  CHECK(quantized.rows.scalar_type() == torch::kInt8);
  const torch::Tensor error = (dequantize_rows(quantized, torch::kFloat64) - table).abs();
  // Half a step, and the rounding of the scale itself.
  CHECK((error <= 0.5001 * quantized.row_scale->unsqueeze(1)).all().item<bool>());
  CHECK(dequantize_rows(quantized, torch::kFloat32)[7].abs().max().item<float>() == 0);
  CHECK_THROWS_WITH(quantize_rows(torch::full({2, 2}, NAN)), Catch::Contains("NaN"));
  CHECK_THROWS_WITH(quantize_rows(table[0]), Catch::Contains("[R, W]"));
}

TEST_CASE("int8 tables decode as the tables that they stand for, from every store") {
  TemporaryFolder folder;
  GPT model = bank_model(torch::kFloat32);
  TensorMap tensors = module_state(*model);
  const torch::NoGradGuard no_grad;
  for (const auto& [layer, table] : bank_tables(model)) {
    const std::string name = bank_name(model->options(), layer);
    const BankTable quantized = quantize_rows(table.rows);
    tensors[name + ".table"] = quantized.rows;
    tensors[name + ".row_scale"] = *quantized.row_scale;
    table.rows.copy_(dequantize_rows(quantized, torch::kFloat32));
  }
  const std::filesystem::path file = folder.path() / "int8.safetensors";
  save_safetensors(file, tensors);
  const torch::Tensor ids = random_ids(1, 200);
  const auto logits = [&](std::shared_ptr<BankStore> store) {
    Decoder decoder(model, {}, std::move(store));
    DecodeState state = decoder.start();
    return torch::cat(
        {decoder.forward(ids.slice(1, 0, 190), state), decoder.forward(ids.slice(1, 190), state)}, 1);
  };
  const torch::Tensor expected = logits(nullptr);
  const BankTables tables = map_bank_tables(model, file);
  CHECK(tables.begin()->second.row_scale.has_value());
  // float32 products summed in another order.
  CHECK(relative_error(logits(make_mapped_bank_store(tables)), expected) < 1e-5);
  CHECK(relative_error(logits(make_device_bank_store(tables)), expected) < 1e-5);
  CHECK(relative_error(logits(std::make_shared<HostBankStore>(tables, torch::kCPU, torch::kFloat32)),
                       expected) < 1e-5);
}

TEST_CASE("mapped tensors are the file's, and problems name the file") {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "tensors.safetensors";
  const torch::Tensor table = torch::randn({5, 3});
  save_safetensors(file, {{"table", table}, {"flag", torch::ones({2}, torch::kBool)}});
  torch::Tensor mapped;
  {
    const MappedTensors tensors(file);
    mapped = tensors.tensor("table");
    CHECK_THROWS_WITH(tensors.tensor("absent"), Catch::Contains("holds no tensor 'absent'"));
    CHECK_THROWS_WITH(tensors.tensor("flag"), Catch::Contains("cannot be mapped"));
  }
  will_need(mapped);
  CHECK(bitwise_equal(mapped, table));
  CHECK_THROWS_WITH(MappedTensors(folder.path() / "none"), Catch::Contains("none"));
  GPT model = bank_model(torch::kFloat32);
  CHECK_THROWS_WITH(map_bank_tables(model, file), Catch::Contains("blocks.4.attention.value.bank.table"));
  save_safetensors(file, {{"blocks.4.attention.value.bank.table", table}});
  CHECK_THROWS_WITH(map_bank_tables(model, file), Catch::Contains("is [5, 3]; expected [50, 16]"));
}

}  // namespace
}  // namespace bov
