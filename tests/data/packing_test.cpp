#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <random>

#include "experiments/data/packing_loader.h"
#include "experiments/data/token_shard_writer.h"
#include "experiments/data/validation_loader.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace bov::experiments;
using bov::testing::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

constexpr int32_t kBos = 0;

// Documents of the given lengths whose tokens are 1, 2, 3, ... through all documents, so that every token
// tells its place.
TokenDocuments numbered_documents(const std::vector<int64_t>& lengths, size_t documents_a_shard = 1000) {
  TemporaryFolder folder;  // a mapped file stays readable after its removal
  std::vector<TokenShard> shards;
  TokenShardWriter writer(1 << 30, kBos, 5);
  int32_t next = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    std::vector<int32_t> tokens(static_cast<size_t>(lengths[i]));
    std::iota(tokens.begin(), tokens.end(), next);
    next += static_cast<int32_t>(lengths[i]);
    writer.add(tokens, 2 * lengths[i]);
    if (writer.documents() == static_cast<int64_t>(documents_a_shard) || i + 1 == lengths.size()) {
      const auto path = folder / std::to_string(shards.size());
      writer.write(path);
      shards.push_back(TokenShard::open(path));
    }
  }
  return TokenDocuments(std::move(shards));
}

std::vector<int64_t> random_lengths(unsigned seed, int count, int64_t longest) {
  std::mt19937 random(seed);
  std::vector<int64_t> lengths;
  for (int i = 0; i < count; ++i) {
    const unsigned bound = 1 + random() % static_cast<unsigned>(longest);
    lengths.push_back(1 + static_cast<int64_t>(random() % bound));
  }
  return lengths;
}

std::vector<int32_t> take_rows(PackingLoader& loader, int batches) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < batches; ++i) {
    const PackedBatch batch = loader.next();
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  return tokens;
}

// The published rule as written down: a list in order of arrival, scanned for each placement.
class ListPacker {
 public:
  ListPacker(const TokenDocuments& documents, int64_t sequence_length, int64_t buffer, bool cut_long)
      : documents_(documents), width_(sequence_length + 1), buffer_(buffer), cut_long_(cut_long) {}

  std::vector<int32_t> row() {
    std::vector<int32_t> row;
    while (static_cast<int64_t>(row.size()) < width_) {
      while (static_cast<int64_t>(waiting_.size()) < buffer_) read_group();
      const size_t room = static_cast<size_t>(width_) - row.size();
      auto chosen = waiting_.end();
      for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
        if (it->size() <= room && (chosen == waiting_.end() || it->size() > chosen->size())) chosen = it;
      }
      if (chosen == waiting_.end()) {
        chosen = std::min_element(waiting_.begin(), waiting_.end(),
                                  [](const auto& a, const auto& b) { return a.size() < b.size(); });
      }
      row.insert(row.end(), chosen->begin(),
                 chosen->begin() + static_cast<int64_t>(std::min(room, chosen->size())));
      waiting_.erase(chosen);
    }
    return row;
  }
  size_t longest_waiting() const {
    size_t longest = 0;
    for (const auto& tokens : waiting_) longest = std::max(longest, tokens.size());
    return longest;
  }

 private:
  void read_group() {
    for (int i = 0; i < 128; ++i) {
      const int64_t length = documents_.length(next_);
      const int64_t step = cut_long_ ? width_ - 1 : length;
      for (int64_t offset = 0; offset < length; offset += step) {
        std::vector<int32_t> tokens(static_cast<size_t>(std::min(step, length - offset) + 1), kBos);
        documents_.copy(next_, offset, std::span(tokens).subspan(1));
        waiting_.push_back(tokens);
      }
      if (++next_ == documents_.size()) {
        next_ = 0;
        break;
      }
    }
  }

  const TokenDocuments& documents_;
  int64_t width_, buffer_;
  bool cut_long_;
  int64_t next_ = 0;
  std::list<std::vector<int32_t>> waiting_;
};

}  // namespace

TEST_CASE("packing makes the rows of a plain scan over the waiting documents") {
  const unsigned seed = GENERATE(1u, 2u, 3u);
  const bool as_published = GENERATE(false, true);
  CAPTURE(seed, as_published);
  // Some documents are longer than a row of 33; 150 documents and a buffer of 40 pass the end of the epoch
  // several times.
  const TokenDocuments documents = numbered_documents(random_lengths(seed, 150, 90), 17);
  const PackingOptions options{.rows = 3,
                               .sequence_length = 32,
                               .buffer_documents = 40,
                               .seed = 1,
                               .shuffle = false,
                               .as_published = as_published};
  PackingLoader loader(documents, kBos, options);
  ListPacker reference(documents, 32, 40, !as_published);
  for (int batch = 0; batch < 100; ++batch) {
    const PackedBatch packed = loader.next();
    REQUIRE(packed.width == 33);
    for (int64_t row = 0; row < 3; ++row) {
      const std::vector<int32_t> got(packed.tokens.begin() + row * 33,
                                     packed.tokens.begin() + (row + 1) * 33);
      REQUIRE(got == reference.row());
      REQUIRE(got.front() == kBos);
    }
  }
  CHECK(loader.epoch() >= 2);
  CHECK(loader.rows_made() == 300);
}

TEST_CASE("the published rule lets long documents pile up, the default rule does not") {
  std::vector<int64_t> lengths = random_lengths(4, 400, 20);
  for (size_t i = 0; i < lengths.size(); i += 20) lengths[i] = 500;
  const TokenDocuments documents = numbered_documents(lengths);
  const auto long_waiting = [&](bool as_published) {
    PackingLoader loader(
        documents, kBos,
        {.rows = 50, .sequence_length = 32, .buffer_documents = 100, .as_published = as_published});
    for (int i = 0; i < 40; ++i) loader.next();
    const nlohmann::json state = loader.state();
    int64_t count = 0;
    for (const auto& piece : state["waiting"]) count += piece[2] > 32;
    return count;
  };
  CHECK(long_waiting(true) >= 99);
  CHECK(long_waiting(false) == 0);
}

TEST_CASE("cutting a long document loses none of its tokens") {
  // Rows of 9: a document of 20 tokens becomes 8 + 8 + 4, each after its own bos; the last piece waits for
  // company.
  const TokenDocuments documents = numbered_documents({20});
  PackingLoader loader(documents, kBos,
                       {.rows = 2, .sequence_length = 8, .buffer_documents = 1, .shuffle = false});
  const std::vector<int32_t> expected = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 10, 11, 12, 13, 14, 15, 16};
  CHECK(loader.next().tokens == expected);
  CHECK(loader.tokens_dropped() == 0);
  // 4 tokens with bos leave 4 places; the next epoch's pieces of 9 do not fit, so the shortest, which is the
  // new last piece, is cropped.
  const PackedBatch next = loader.next();
  CHECK(std::vector(next.tokens.begin(), next.tokens.begin() + 9) ==
        std::vector<int32_t>{0, 17, 18, 19, 20, 0, 17, 18, 19});
  CHECK(loader.tokens_dropped() == 1);
}

TEST_CASE("rows are decided by the seed, not by batch size or shard size") {
  const std::vector<int64_t> lengths = random_lengths(5, 300, 60);
  const TokenDocuments documents = numbered_documents(lengths);
  const TokenDocuments many_shards = numbered_documents(lengths, 7);
  const auto rows = [](const TokenDocuments& source, int64_t rows, uint64_t seed, int batches) {
    PackingLoader loader(source, kBos,
                         {.rows = rows, .sequence_length = 32, .buffer_documents = 50, .seed = seed});
    return take_rows(loader, batches);
  };
  const auto reference = rows(documents, 1, 9, 60);
  CHECK(rows(documents, 6, 9, 10) == reference);
  CHECK(rows(many_shards, 4, 9, 15) == reference);
  CHECK(rows(documents, 1, 10, 60) != reference);
}

TEST_CASE("an epoch reads every document once, each in another order") {
  const TokenDocuments documents = numbered_documents(std::vector<int64_t>(64, 3));
  // Rows that hold one document each: the order of the rows is the order of the documents.
  PackingLoader loader(documents, kBos, {.rows = 64, .sequence_length = 3, .buffer_documents = 1, .seed = 3});
  std::vector<std::vector<int32_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const PackedBatch batch = loader.next();
    std::vector<int32_t> order;
    for (size_t row = 0; row < 64; ++row) order.push_back((batch.tokens[row * 4 + 1] - 1) / 3);
    epochs.push_back(order);
    std::sort(order.begin(), order.end());
    for (int32_t i = 0; i < 64; ++i) REQUIRE(order[static_cast<size_t>(i)] == i);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}

TEST_CASE("a restored loader continues with exactly the rows that would have come") {
  const TokenDocuments documents = numbered_documents(random_lengths(6, 200, 100));
  const bool as_published = GENERATE(false, true);
  const bool shuffle = GENERATE(false, true);
  const PackingOptions options{.rows = 5,
                               .sequence_length = 40,
                               .buffer_documents = 30,
                               .seed = 8,
                               .shuffle = shuffle,
                               .as_published = as_published};
  PackingLoader straight(documents, kBos, options);
  for (const int batches : {0, 1, 7, 30}) {
    take_rows(straight, batches);
    const std::string saved = straight.state().dump();
    PackingLoader resumed(documents, kBos, options);
    take_rows(resumed, 3);  // restoring must not depend on what the loader did before
    resumed.restore(nlohmann::json::parse(saved));
    REQUIRE(resumed.state().dump() == saved);
    REQUIRE(take_rows(resumed, 25) == take_rows(straight, 25));
    REQUIRE(resumed.state() == straight.state());
    REQUIRE(resumed.tokens_dropped() == straight.tokens_dropped());
  }
}

TEST_CASE("a position of another run is refused by the name of the difference") {
  const TokenDocuments documents = numbered_documents({5, 6, 7});
  const PackingOptions options{.rows = 1, .sequence_length = 4, .buffer_documents = 2, .seed = 8};
  const nlohmann::json state = PackingLoader(documents, kBos, options).state();
  const auto restore = [&](const TokenDocuments& source, PackingOptions changed) {
    PackingLoader(source, kBos, changed).restore(state);
  };
  PackingOptions changed = options;
  changed.seed = 9;
  CHECK_THROWS_WITH(restore(documents, changed), Contains("saved with seed = 8, but this run has 9"));
  changed = options;
  changed.sequence_length = 5;
  CHECK_THROWS_WITH(restore(documents, changed), Contains("sequence_length = 4"));
  changed = options;
  changed.as_published = true;
  CHECK_THROWS_WITH(restore(documents, changed), Contains("as_published = false"));
  CHECK_THROWS_WITH(restore(numbered_documents({5, 6, 8}), options),
                    Contains("tokens = 18, but this run has 19"));
  changed = options;
  changed.rows = 3;
  CHECK_NOTHROW(restore(documents, changed));
}

TEST_CASE("impossible packing options are refused by name") {
  const TokenDocuments documents = numbered_documents({5});
  CHECK_THROWS_WITH(PackingLoader(documents, kBos, {.rows = 0}), Contains("rows is 0, expected at least 1"));
  CHECK_THROWS_WITH(PackingLoader(documents, kBos, {.sequence_length = -2}),
                    Contains("sequence_length is -2"));
  CHECK_THROWS_WITH(PackingLoader(documents, kBos, {.buffer_documents = 0}),
                    Contains("buffer_documents is 0"));
  CHECK_THROWS_WITH(PackingLoader(TokenDocuments({}), kBos, {}), Contains("no document to pack"));
  CHECK_THROWS_WITH(ValidationLoader(documents, kBos, 0, 4), Contains("rows = 0"));
}

TEST_CASE("a validation pass targets every token of every document exactly once") {
  const unsigned seed = GENERATE(1u, 2u, 3u);
  const int64_t sequence_length = GENERATE(1, 7, 32, 500);
  const TokenDocuments documents = numbered_documents(random_lengths(seed, 130, 90), 9);
  ValidationLoader loader(documents, kBos, 4, sequence_length);
  std::vector<int32_t> first_batch;
  std::map<int32_t, int> seen;
  while (auto batch = loader.next()) {
    REQUIRE(batch->inputs.size() == static_cast<size_t>(4 * sequence_length));
    REQUIRE(batch->targets.size() == batch->inputs.size());
    if (first_batch.empty()) first_batch = batch->inputs;
    for (size_t i = 0; i < batch->targets.size(); ++i) {
      const int32_t target = batch->targets[i];
      if (i % static_cast<size_t>(sequence_length) == 0) REQUIRE(batch->inputs[i] == kBos);
      if (target > 0) {
        ++seen[target];
        // A token follows its predecessor in the text, or bos where a piece begins.
        REQUIRE((batch->inputs[i] == kBos || batch->inputs[i] == target - 1));
      }
    }
  }
  REQUIRE(static_cast<int64_t>(seen.size()) == documents.tokens());
  for (const auto& [token, count] : seen) REQUIRE(count == 1);
  CHECK_FALSE(loader.next());
  loader.rewind();
  CHECK(loader.next()->inputs == first_batch);
}

TEST_CASE("validation rows are packed tightly and padded only at their ends") {
  // Rows of 6: 5 + bos fills one; 3 + bos and 1 + bos share the next.
  const TokenDocuments documents = numbered_documents({1, 5, 3});
  ValidationLoader loader(documents, kBos, 3, 5);
  const ValidationBatch batch = *loader.next();
  CHECK(batch.inputs == std::vector<int32_t>{0, 2, 3, 4, 5, /**/ 0, 7, 8, 9, 0, /**/ 0, 0, 0, 0, 0});
  CHECK(batch.targets == std::vector<int32_t>{2, 3, 4, 5, 6, /**/ 7, 8, 9, 0, 1, /**/ -1, -1, -1, -1, -1});
  CHECK_FALSE(loader.next());
}

TEST_CASE("a validation pass over a selection reads so many of its tokens, in its order") {
  const TokenDocuments documents = numbered_documents({1, 5, 3});
  // The documents of tokens 7 to 9 and 2 to 6, of the second two tokens alone.
  ValidationLoader loader(documents, kBos, 1, 5, {.order = {2, 1, 0}, .tokens = 5});
  CHECK(loader.next()->targets == std::vector<int32_t>{7, 8, 9, -1, -1});
  CHECK(loader.next()->targets == std::vector<int32_t>{2, 3, -1, -1, -1});
  CHECK_FALSE(loader.next());
  loader.rewind();
  CHECK(loader.next()->inputs == std::vector<int32_t>{0, 7, 8, 9, 0});
}
