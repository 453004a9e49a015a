#include "experiments/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "data/test_text.h"
#include "experiments/tokenizer/backend/tokenizer_backend.h"
#include "experiments/tokenizer/text_encoder.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "experiments/tokenizer/utf8_runs.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace bov::experiments;
using bov::testing::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

constexpr int32_t kVocabulary = 420;

TokenizerTrainingReport train(const TemporaryFolder& folder, const std::string& text, int32_t vocabulary) {
  bov::testing::write_file(folder / "text.txt", text);
  DocumentReader documents({(folder / "text.txt").string()});
  return train_tokenizer(documents, {.vocab_size = vocabulary, .validation_per_mille = 0},
                         folder / "tokenizer");
}

const Tokenizer& shared_tokenizer() {
  static const Tokenizer tokenizer = [] {
    TemporaryFolder folder;
    train(folder, bov::testing::random_text(1, 8000), kVocabulary);
    return Tokenizer::load(folder / "tokenizer");
  }();
  return tokenizer;
}

int64_t bytes_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  int64_t bytes = 0;
  for (const int32_t id : ids) bytes += tokenizer.token_bytes()[static_cast<size_t>(id)];
  return bytes;
}

void check_round_trip(const std::string& text) {
  const Tokenizer& tokenizer = shared_tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode(text);
  REQUIRE(tokenizer.decode(ids) == text);
  REQUIRE(bytes_of(tokenizer, ids) == static_cast<int64_t>(text.size()));
  REQUIRE(std::count(ids.begin(), ids.end(), tokenizer.bos()) == 0);
}

std::vector<std::pair<std::string, bool>> runs_of(std::string_view text) {
  std::vector<std::pair<std::string, bool>> runs;
  while (!text.empty()) {
    const TextRun run = take_run(text);
    runs.emplace_back(run.bytes, run.faithful);
  }
  return runs;
}

}  // namespace

TEST_CASE("the vocabulary has exactly the asked size: bos, every byte once, learned pieces") {
  const Tokenizer& tokenizer = shared_tokenizer();
  CHECK(tokenizer.vocab_size() == kVocabulary);
  CHECK(tokenizer.bos() == 0);
  CHECK(tokenizer.token_bytes()[0] == 0);
  for (int32_t byte = 0; byte < 256; ++byte) {
    REQUIRE(tokenizer.table().piece(1 + byte) == std::string(1, static_cast<char>(byte)));
  }
  int64_t learned = 0;
  for (int32_t id = 257; id < kVocabulary; ++id)
    learned += tokenizer.token_bytes()[static_cast<size_t>(id)] > 1;
  CHECK(learned > 100);
}

TEST_CASE("encoding finds words, splits digits and never makes more tokens than bytes") {
  const Tokenizer& tokenizer = shared_tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode(" the attention layer");
  CHECK(ids.size() == 3);
  CHECK(tokenizer.encode(" 1987").size() == 5);
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE("any bytes come back from their ids") {
  for (const std::string text : {"", " ", "  two  spaces ", "line\nline\r\n\n\ttab", "<|bos|> <0x0A> <unk>",
                                 "\xef\xbb\xbf bom", "\xe2\x96\x81 is not a space", "\xe2\x96\x85",
                                 "emoji \xf0\x9f\x98\x80", "\xff\xfe", "cut \xe2\x96"}) {
    check_round_trip(text);
  }
  check_round_trip(std::string("a\0b\0", 4));
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round)
    check_round_trip(bov::testing::random_bytes(random, static_cast<int>(random() % 90)));
  std::string every_byte(256, '\0');
  std::iota(every_byte.begin(), every_byte.end(), '\0');
  check_round_trip(every_byte);
}

TEST_CASE("runs part what SentencePiece keeps from what it would alter") {
  using Runs = std::vector<std::pair<std::string, bool>>;
  CHECK(runs_of("ab\xff\xfe"
                "c") == Runs{{"ab", true}, {"\xff\xfe", false}, {"c", true}});
  CHECK(runs_of("\xe2\x96\x81x") == Runs{{"\xe2\x96\x81", false}, {"x", true}});
  CHECK(runs_of("\xe2\x96\x82\xe2\x96\x85") == Runs{{"\xe2\x96\x82", true}, {"\xe2\x96\x85", false}});
  CHECK(runs_of("\xed\x9f\xbf") == Runs{{"\xed\x9f\xbf", true}});   // U+D7FF, the last before the surrogates
  CHECK(runs_of("\xed\xa0\x80") == Runs{{"\xed\xa0\x80", false}});  // a surrogate
  CHECK(runs_of("\xf4\x8f\xbf\xbf") == Runs{{"\xf4\x8f\xbf\xbf", true}});   // U+10FFFF
  CHECK(runs_of("\xf4\x90\x80\x80") == Runs{{"\xf4\x90\x80\x80", false}});  // beyond it
  CHECK(runs_of("\xe0\x9f\xbf") == Runs{{"\xe0\x9f\xbf", false}});          // longer than needed
  CHECK(runs_of("\xc3") == Runs{{"\xc3", false}});
}

TEST_CASE("sentences are cut after a newline, else between words, else between characters; nothing is lost") {
  std::string_view text = "one two\nthree four five";
  CHECK(take_sentence(text, 12) == "one two\n");
  CHECK(take_sentence(text, 12) == "three four");
  CHECK(take_sentence(text, 12) == " five");
  CHECK(text.empty());
  text = "\xc3\xa9\xc3\xa9\xc3\xa9";
  CHECK(take_sentence(text, 5) == "\xc3\xa9\xc3\xa9");
  CHECK(text == "\xc3\xa9");
}

TEST_CASE("a word begins where a space follows a non-space") {
  std::string_view text = "  two  words\n here";
  CHECK(take_word(text) == "  two");
  CHECK(take_word(text) == "  words\n");
  CHECK(take_word(text) == " here");
  CHECK(text.empty());
}

TEST_CASE("a long text encodes word by word as it does in one piece") {
  TemporaryFolder folder;
  train(folder, bov::testing::random_text(1, 8000), kVocabulary);
  const TokenizerBackend backend(bov::testing::read_file(folder / "tokenizer/tokenizer.model"));
  std::string text = bov::testing::random_text(2, 20000);
  text.insert(30000, 300, ' ');
  text.insert(60000, 9000, 'x');
  REQUIRE(text.size() > 100000);
  std::vector<int32_t> whole;
  backend.encode(text, whole);
  const Tokenizer tokenizer = Tokenizer::load(folder / "tokenizer");
  CHECK(tokenizer.encode(text) == whole);
  TextEncoder encoder(tokenizer);
  for (int again = 0; again < 2; ++again) CHECK(encoder.encode(text) == whole);
}

TEST_CASE("threads share one tokenizer") {
  const Tokenizer& tokenizer = shared_tokenizer();
  const std::string text = bov::testing::random_text(3, 3000);
  const std::vector<int32_t> expected = tokenizer.encode(text);
  std::vector<int> equal(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : equal) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) count += tokenizer.encode(text) == expected;
      });
    }
  }
  CHECK(equal == std::vector<int>(4, 5));
}

TEST_CASE("training reads everything: long lines, reserved characters and tabs are counted, not skipped") {
  TemporaryFolder folder;
  const std::string reserved = "\xe2\x96\x85\xe2\x96\x81\xff";
  const std::string text =
      bov::testing::random_text(4, 6000) + reserved + std::string(20000, 'q') + "\tzz\tzz\tzz";
  const TokenizerTrainingReport report = train(folder, text, kVocabulary);
  CHECK(report.documents == 1);
  CHECK(report.bytes == static_cast<int64_t>(text.size()));
  CHECK(report.unlearnable_bytes == static_cast<int64_t>(reserved.size()));
  // SentencePiece's own default would have dropped the 20,000 letters and this piece with them.
  const Tokenizer tokenizer = Tokenizer::load(folder / "tokenizer");
  CHECK(tokenizer.encode("qqqqqqqqqqqqqqqq").size() < 4);
  const auto stored = nlohmann::json::parse(bov::testing::read_file(folder / "tokenizer/tokenizer.json"));
  CHECK(stored["training"]["bytes"] == text.size());
  CHECK(stored["training"]["unlearnable_bytes"] == reserved.size());
}

TEST_CASE("training is deterministic, holds out validation documents and stops where told") {
  TemporaryFolder folder;
  std::string text;
  for (unsigned i = 0; i < 60; ++i) text += bov::testing::random_text(100 + i, 200) + "\n<|endoftext|>\n";
  bov::testing::write_file(folder / "text.txt", text);
  const auto run = [&](const std::string& name, TokenizerTrainingOptions options) {
    DocumentReader documents({(folder / "text.txt").string()});
    return train_tokenizer(documents, options, folder / name);
  };
  const auto first = run("a", {.vocab_size = 400, .validation_per_mille = 300});
  run("b", {.vocab_size = 400, .validation_per_mille = 300});
  CHECK(bov::testing::read_file(folder / "a/tokenizer.model") ==
        bov::testing::read_file(folder / "b/tokenizer.model"));
  CHECK(first.documents + first.held_out_documents == 60);
  CHECK(first.held_out_documents > 5);
  CHECK_FALSE(first.stopped_at_max_bytes);
  const auto stopped = run("c", {.vocab_size = 300, .max_bytes = 5000, .validation_per_mille = 0});
  CHECK(stopped.stopped_at_max_bytes);
  CHECK(stopped.bytes >= 5000);
  CHECK(stopped.documents < 10);
}

TEST_CASE("impossible training says why") {
  TemporaryFolder folder;
  const std::string text = bov::testing::random_text(5, 2000);
  CHECK_THROWS_WITH(train(folder, text, 257), Contains("vocabulary of 257 is too small") && Contains("257"));
  CHECK_THROWS_WITH(train(folder, text, 60000), Contains("Vocabulary size too high (60000)"));
  CHECK(std::filesystem::is_empty(folder / "tokenizer"));
  train(folder, text, 300);
  CHECK_THROWS_WITH(train(folder, text, 300), Contains("already holds a tokenizer"));
}

TEST_CASE("a damaged or foreign tokenizer folder names the file and the fault") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH(Tokenizer::load(folder / "none"),
                    Contains("none/tokenizer.json") && Contains("bov tokenizer train"));
  train(folder, bov::testing::random_text(6, 2000), 300);
  const std::filesystem::path table = folder / "tokenizer/tokenizer.json";
  const std::filesystem::path model = folder / "tokenizer/tokenizer.model";
  const std::string table_text = bov::testing::read_file(table);
  const std::string model_bytes = bov::testing::read_file(model);

  bov::testing::write_file(model, model_bytes + "x");
  CHECK_THROWS_WITH(Tokenizer::load(folder / "tokenizer"), Contains("tokenizer.model has hash"));
  std::filesystem::remove(model);
  CHECK_THROWS_WITH(Tokenizer::load(folder / "tokenizer"),
                    Contains("cannot open") && Contains("tokenizer.model"));
  bov::testing::write_file(model, model_bytes);

  const auto with = [&](const std::string& field, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(table_text);
    json[field] = value;
    bov::testing::write_file(table, json.dump());
  };
  with("format", "other");
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"), Contains("its format is not 'bov-tokenizer'"));
  with("version", 9);
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"), Contains("its version is 9, expected 1"));
  with("vocab_size", 299);
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"),
                    Contains("holds 300 pieces, but vocab_size is 299"));
  with("bos", 5);
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"), Contains("bos is id 5, which is no special"));
  with("hash", "xyz");
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"), Contains("'xyz' is no hexadecimal number"));
  bov::testing::write_file(table, table_text.substr(0, table_text.size() / 2));
  CHECK_THROWS_WITH(TokenTable::load(folder / "tokenizer"), Contains("tokenizer.json is no tokenizer table"));
  bov::testing::write_file(table, table_text);
  CHECK_NOTHROW(Tokenizer::load(folder / "tokenizer"));
}

TEST_CASE("an id outside the vocabulary is refused") {
  const std::vector<int32_t> beyond = {kVocabulary};
  CHECK_THROWS_WITH(shared_tokenizer().decode(beyond),
                    Contains("token id 420 is outside the vocabulary of 420"));
  const std::vector<int32_t> negative = {-1};
  CHECK_THROWS_AS(shared_tokenizer().decode(negative), std::out_of_range);
}
