#include "experiments/bench/bench_inputs.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>

#include "experiments/data/data_folder.h"

namespace bov::experiments {
namespace {

/// With 32,768 rows the most frequent id makes a seventh of all, about as many as the line break in text.
constexpr double kZipfExponent = 1.1;

at::Tensor zipf_ids(uint64_t seed, int64_t count, int64_t rows) {
  std::mt19937_64 generator(seed);
  std::vector<double> weights(rows);
  for (int64_t rank = 0; rank < rows; ++rank) {
    weights[rank] = std::pow(static_cast<double>(rank + 1), -kZipfExponent);
  }
  // Frequent ids lie anywhere in the table.
  std::vector<int64_t> id_of_rank(rows);
  std::iota(id_of_rank.begin(), id_of_rank.end(), 0);
  std::shuffle(id_of_rank.begin(), id_of_rank.end(), generator);
  std::discrete_distribution<int64_t> rank(weights.begin(), weights.end());
  at::Tensor ids = at::empty({count}, at::kLong);
  for (int64_t& id : std::span(ids.mutable_data_ptr<int64_t>(), count)) id = id_of_rank[rank(generator)];
  return ids;
}

/// The first `count` tokens of the documents, each behind its bos.
at::Tensor text_ids(const DataFolder& data, int64_t count, int64_t rows) {
  const TokenDocuments& documents = data.train();
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < documents.size() && std::ssize(tokens) < count; ++i) {
    tokens.push_back(data.bos());
    const int64_t begin = std::ssize(tokens);
    tokens.resize(begin + documents.length(i));
    documents.copy(i, 0, std::span(tokens).subspan(begin));
  }
  if (std::ssize(tokens) < count || data.vocab_size() > rows) {
    throw std::runtime_error("the benchmark wants " + std::to_string(count) + " ids below " +
                             std::to_string(rows) + ", but the data folder has " +
                             std::to_string(tokens.size()) + " ids below " +
                             std::to_string(data.vocab_size()));
  }
  at::Tensor ids = at::empty({count}, at::kLong);
  std::copy_n(tokens.begin(), count, ids.mutable_data_ptr<int64_t>());
  return ids;
}

}  // namespace

BenchInputs::BenchInputs(c10::Device device, const std::optional<std::filesystem::path>& data, uint64_t seed)
    : device_(device) {
  if (data) {
    ids_ = [folder = std::make_shared<DataFolder>(DataFolder::open(*data))](int64_t count, int64_t rows) {
      return text_ids(*folder, count, rows);
    };
  } else {
    ids_ = [seed](int64_t count, int64_t rows) { return zipf_ids(seed, count, rows); };
  }
}

ColdTensor::ColdTensor(const at::Tensor& tensor, std::optional<int64_t> bytes) {
  constexpr int64_t kColdBytes = int64_t{256} << 20, kMostBytes = int64_t{2} << 30;
  const auto size = std::max<int64_t>(1, static_cast<int64_t>(tensor.nbytes()));
  const int64_t wanted = 1 + kColdBytes / std::clamp<int64_t>(bytes.value_or(size), 1, size);
  for (int64_t i = 0; i < std::clamp<int64_t>(kMostBytes / size, 1, wanted); ++i) {
    copies_.push_back(tensor.clone());
  }
}

}  // namespace bov::experiments
