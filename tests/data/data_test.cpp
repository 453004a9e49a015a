#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "data/test_text.h"
#include "experiments/data/data_builder.h"
#include "experiments/data/data_folder.h"
#include "experiments/data/data_identity.h"
#include "experiments/data/document_reader.h"
#include "experiments/data/shard_format.h"
#include "experiments/data/text_hash.h"
#include "experiments/data/token_shard_writer.h"
#include "experiments/tokenizer/tokenizer.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace bov::experiments;
using bov::testing::read_file;
using bov::testing::TemporaryFolder;
using bov::testing::write_file;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> read_all(DocumentReader& reader) {
  std::vector<std::string> documents;
  while (auto document = reader.next()) documents.push_back(*document);
  return documents;
}

std::vector<std::string> read_all(const std::filesystem::path& path, ReaderOptions options = {}) {
  DocumentReader reader({path.string()}, options);
  return read_all(reader);
}

void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::string json_line(const std::string& text) {
  return nlohmann::json({{"text", text}}).dump() + "\n";
}

constexpr int kPerMille = 200;

// 120 documents of varied length; the tokenizer is trained on them. Made once, copied by each test that
// damages it.
struct Corpus {
  TemporaryFolder folder;
  std::vector<std::string> documents;

  Corpus() {
    std::string lines;
    for (unsigned i = 0; i < 120; ++i) {
      documents.push_back(bov::testing::random_text(i, 3 + static_cast<int>(i * i % 211)));
      lines += json_line(documents.back());
    }
    write_file(folder / "text.jsonl", lines);
    DocumentReader reader({(folder / "text.jsonl").string()});
    train_tokenizer(reader, {.vocab_size = 400, .validation_per_mille = 0}, folder / "tokenizer");
    build("data", {.validation_per_mille = kPerMille});
  }
  nlohmann::json build(const std::string& name,
                       DataBuildOptions options,
                       const std::string& input = "text.jsonl") const {
    options.tokenizer = folder / "tokenizer";
    DocumentReader reader({(folder / input).string()});
    return build_data(reader, options, folder / name);
  }
};

const Corpus& corpus() {
  static const Corpus made;
  return made;
}

std::vector<std::string> decode_all(const DataFolder& data, const TokenDocuments& split) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < split.size(); ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(split.length(i)));
    split.copy(i, 0, ids);
    texts.push_back(data.tokens().decode(ids));
  }
  return texts;
}

std::string flip_byte(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  return bytes;
}

}  // namespace

TEST_CASE("text files are one document, or several between separator lines") {
  TemporaryFolder folder;
  write_file(folder / "one.txt", "a\n\nb\r\n <|endoftext|>\n");
  CHECK(read_all(folder / "one.txt") == std::vector<std::string>{"a\n\nb\r\n <|endoftext|>\n"});
  write_file(folder / "many.txt",
             "first\nline\n<|endoftext|>\n<|endoftext|>\n\nsecond\n\n<|endoftext|>\nthird");
  DocumentReader reader({(folder / "many.txt").string()});
  CHECK(read_all(reader) == std::vector<std::string>{"first\nline", "\nsecond\n", "third"});
  CHECK(reader.counts().documents == 3);
  CHECK(reader.counts().bytes == 10 + 8 + 5);
  CHECK(reader.counts().empty == 1);
  write_file(folder / "empty.txt", "");
  CHECK(read_all(folder / "empty.txt").empty());
  write_gzip(folder / "many.txt.gz", read_file(folder / "many.txt"));
  CHECK(read_all(folder / "many.txt.gz") == read_all(folder / "many.txt"));
}

TEST_CASE("JSON lines give their text byte for byte, plain or compressed, over any line length") {
  TemporaryFolder folder;
  const std::vector<std::string> texts = {"a \"quoted\"\nline", std::string(700000, 'x'),
                                          "caf\u00e9 \xf0\x9f\x98\x80"};
  std::string lines = "\n{\"source\": 3, \"text\": \"\\u0000 nul\"}\r\n";
  for (const std::string& text : texts) lines += json_line(text);
  lines.pop_back();  // no newline at the end
  write_file(folder / "a.jsonl", lines);
  write_gzip(folder / "b.jsonl.gz", lines);
  std::vector<std::string> expected = {std::string("\0 nul", 5)};
  expected.insert(expected.end(), texts.begin(), texts.end());
  CHECK(read_all(folder / "a.jsonl") == expected);
  CHECK(read_all(folder / "b.jsonl.gz") == expected);
  DocumentReader both({(folder / "a.jsonl").string(), (folder / "b.jsonl.gz").string()});
  CHECK(read_all(both).size() == 8);
}

TEST_CASE("invalid lines stop the reader with their place, or are counted on request") {
  TemporaryFolder folder;
  const std::filesystem::path path = folder / "bad.jsonl";
  write_file(path, json_line("good") + "{\"text\": 5}\n[1]\n{\"text\": \"cut\n{\"text\": \"\xff\"}\n" +
                       json_line("") + json_line("last"));
  CHECK_THROWS_WITH(read_all(path), Contains("bad.jsonl:2: expected a JSON object with a string \"text\""));
  DocumentReader reader({path.string()}, {.skip_invalid = true});
  CHECK(read_all(reader) == std::vector<std::string>{"good", "last"});
  CHECK(reader.counts().invalid == 4);
  CHECK(reader.counts().invalid_bytes == 11 + 3 + 13 + 13);
  CHECK(reader.counts().empty == 1);
  write_file(path, "not json\n");
  CHECK_THROWS_WITH(read_all(path), Contains("bad.jsonl:1: is no JSON, byte 2 of the line shows"));
}

TEST_CASE("unreadable inputs are named before anything is read") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH(DocumentReader({"book.pdf"}), Contains("'book.pdf'") && Contains(".jsonl.gz"));
  CHECK_THROWS_WITH(DocumentReader({(folder / "no.txt").string()}),
                    Contains("no.txt") && Contains("No such file"));
  write_gzip(folder / "cut.jsonl.gz", json_line(bov::testing::random_text(1, 4000)));
  const std::string whole = read_file(folder / "cut.jsonl.gz");
  write_file(folder / "cut.jsonl.gz", whole.substr(0, whole.size() / 2));
  CHECK_THROWS_WITH(read_all(folder / "cut.jsonl.gz"), Contains("cut.jsonl.gz") && Contains("truncated"));
  write_file(folder / "cut.jsonl.gz", flip_byte(whole, whole.size() - 6));
  CHECK_THROWS_WITH(read_all(folder / "cut.jsonl.gz"), Contains("cut.jsonl.gz cannot be read"));
}

TEST_CASE("gzip members may follow each other, and nothing else may follow them") {
  TemporaryFolder folder;
  write_gzip(folder / "first.jsonl.gz", json_line("first"));
  write_gzip(folder / "second.jsonl.gz", json_line("second"));
  write_gzip(folder / "empty.jsonl.gz", "");
  const std::string first = read_file(folder / "first.jsonl.gz");
  const std::string second = read_file(folder / "second.jsonl.gz");
  write_file(folder / "both.jsonl.gz", first + read_file(folder / "empty.jsonl.gz") + second);
  CHECK(read_all(folder / "both.jsonl.gz") == std::vector<std::string>{"first", "second"});
  CHECK(read_all(folder / "empty.jsonl.gz").empty());
  for (const std::string& rest : {std::string("garbage"), std::string("\0\0\0", 3), std::string("\x1f"),
                                  second.substr(0, 1), std::string("{\"text\": \"plain\"}\n")}) {
    write_file(folder / "more.jsonl.gz", first + rest);
    CHECK_THROWS_WITH(read_all(folder / "more.jsonl.gz"),
                      Contains("more.jsonl.gz goes on behind its compressed data"));
  }
  write_file(folder / "half.jsonl.gz", first + second.substr(0, second.size() - 1));
  CHECK_THROWS_WITH(read_all(folder / "half.jsonl.gz"), Contains("half.jsonl.gz ends in the middle"));
  // Not compressed, whatever the name says; and a compressed file without the ending.
  write_file(folder / "plain.jsonl.gz", json_line("plain"));
  CHECK(read_all(folder / "plain.jsonl.gz") == std::vector<std::string>{"plain"});
  write_file(folder / "hidden.jsonl", first);
  CHECK(read_all(folder / "hidden.jsonl") == std::vector<std::string>{"first"});
  std::filesystem::create_directory(folder / "folder.txt");
  CHECK_THROWS_WITH(read_all(folder / "folder.txt"), Contains("folder.txt") && Contains("directory"));
}

TEST_CASE("the hash that splits documents never changes") {
  // FNV-1a 64 of "a" is af63dc4c8601ec8c (published test vector); then murmur3's finaliser, computed in
  // Python.
  static_assert(text_hash("") == 0xefd01f60ba992926);
  static_assert(text_hash("a") == 0x82a2a958a9bece5b);
  int chosen = 0;
  for (int i = 0; i < 20000; ++i) chosen += in_validation_split("document " + std::to_string(i), 10);
  // Binomial: 200 expected, standard deviation 14; five of them.
  CHECK(chosen > 130);
  CHECK(chosen < 270);
  CHECK_FALSE(in_validation_split("x", 0));
}

TEST_CASE("data keeps every byte, in order, split by the hash of each document") {
  const DataFolder data = DataFolder::open(corpus().folder / "data");
  std::vector<std::string> train, validation;
  for (const std::string& text : corpus().documents) {
    (in_validation_split(text, kPerMille) ? validation : train).push_back(text);
  }
  CHECK(validation.size() > 8);
  CHECK(decode_all(data, data.train()) == train);
  CHECK(decode_all(data, data.validation()) == validation);

  int64_t bytes = 0, token_bytes = 0, tokens = 0;
  for (const std::string& text : corpus().documents) bytes += static_cast<int64_t>(text.size());
  for (const TokenDocuments* split : {&data.train(), &data.validation()}) {
    tokens += split->tokens();
    for (int64_t i = 0; i < split->size(); ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(split->length(i)));
      split->copy(i, 0, ids);
      for (const int32_t id : ids) token_bytes += data.token_bytes()[static_cast<size_t>(id)];
    }
  }
  CHECK(token_bytes == bytes);
  CHECK(data.train().text_bytes() + data.validation().text_bytes() == bytes);
  const nlohmann::json& manifest = data.manifest();
  CHECK(manifest["read"]["documents"] == 120);
  CHECK(manifest["read"]["bytes"] == bytes);
  CHECK(manifest["train"]["tokens"].get<int64_t>() + manifest["validation"]["tokens"].get<int64_t>() ==
        tokens);
  CHECK(data.vocab_size() == 400);
}

TEST_CASE("shard size, threads and order of the input never move a document to the other split") {
  const DataFolder whole = DataFolder::open(corpus().folder / "data");
  corpus().build("cut", {.validation_per_mille = kPerMille, .shard_tokens = 500, .threads = 3});
  const DataFolder cut = DataFolder::open(corpus().folder / "cut");
  CHECK(cut.train().shards().size() > 5);
  CHECK(decode_all(cut, cut.train()) == decode_all(whole, whole.train()));
  CHECK(decode_all(cut, cut.validation()) == decode_all(whole, whole.validation()));
  std::string reversed;
  for (auto text = corpus().documents.rbegin(); text != corpus().documents.rend(); ++text)
    reversed += json_line(*text);
  write_file(corpus().folder / "reversed.jsonl", reversed);
  corpus().build("reversed", {.validation_per_mille = kPerMille}, "reversed.jsonl");
  const DataFolder other = DataFolder::open(corpus().folder / "reversed");
  auto expected = decode_all(whole, whole.validation());
  std::reverse(expected.begin(), expected.end());
  CHECK(decode_all(other, other.validation()) == expected);
}

TEST_CASE("data is the same wherever it lies, and other data is told apart by what differs") {
  TemporaryFolder copy;
  std::filesystem::copy(corpus().folder / "data", copy / "data", std::filesystem::copy_options::recursive);
  const nlohmann::json identity = DataFolder::open(corpus().folder / "data").identity();
  CHECK(DataFolder::open(copy / "data").identity() == identity);
  CHECK(identity_difference(identity, identity).empty());

  corpus().build("share", {.validation_per_mille = kPerMille + 1});
  const nlohmann::json share = DataFolder::open(corpus().folder / "share").identity();
  CHECK_FALSE(identity_difference(identity, share).empty());
  auto other = identity;
  other["tokenizer"] = "0000000000000000";
  CHECK_THAT(identity_difference(identity, other),
             Contains("tokenizer is ") && Contains("there and \"0000000000000000\" here"));

  write_file(corpus().folder / "less.jsonl",
             json_line(corpus().documents[0]) + json_line(corpus().documents[1]));
  corpus().build("less", {.validation_per_mille = kPerMille}, "less.jsonl");
  CHECK_FALSE(identity_difference(identity, DataFolder::open(corpus().folder / "less").identity()).empty());
}

TEST_CASE("building refuses finished folders and empty input, and takes over unfinished ones") {
  CHECK_THROWS_WITH(corpus().build("data", {.validation_per_mille = kPerMille}),
                    Contains("already holds data"));
  write_file(corpus().folder / "nothing.jsonl", json_line(""));
  CHECK_THROWS_WITH(corpus().build("nothing", {}, "nothing.jsonl"), Contains("the input holds no document"));
  CHECK_THROWS_WITH(DataFolder::open(corpus().folder / "nothing"),
                    Contains("no finished data in") && Contains("manifest.json"));
  CHECK_NOTHROW(corpus().build("nothing", {}));
  CHECK_NOTHROW(DataFolder::open(corpus().folder / "nothing"));
  CHECK_THROWS_WITH(corpus().build("share", {.validation_per_mille = 1000}),
                    Contains("1000 thousandths, expected 0 to 999"));
}

TEST_CASE("a damaged, truncated or foreign shard names the file and the fault") {
  TemporaryFolder copy;
  std::filesystem::copy(corpus().folder / "data", copy / "data", std::filesystem::copy_options::recursive);
  const std::filesystem::path path = copy / "data/train-00000.tokens";
  const std::string bytes = read_file(path);
  const auto open_changed = [&](const std::string& changed) {
    write_file(path, changed);
    return DataFolder::open(copy / "data");
  };
  const auto rewritten = [&](auto change) {
    std::string changed = bytes;
    ShardHeader header;
    std::memcpy(&header, changed.data(), sizeof header);
    change(header);
    header.header_checksum = shard_header_checksum(header);
    std::memcpy(changed.data(), &header, sizeof header);
    return changed;
  };
  CHECK_THROWS_WITH(open_changed("%PDF" + bytes),
                    Contains("train-00000.tokens: this is no token shard (wrong magic)"));
  const std::filesystem::path pipe = copy / "pipe.tokens";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(TokenShard::open(pipe), Contains("it is no regular file"));
  CHECK_THROWS_WITH(open_changed(bytes.substr(0, 40)), Contains("it has 40 bytes, too few for a header"));
  CHECK_THROWS_WITH(open_changed(bytes.substr(0, bytes.size() - 1)), Contains("it is truncated"));
  CHECK_THROWS_WITH(open_changed(bytes + "x"), Contains("its header promises") && !Contains("truncated"));
  CHECK_THROWS_WITH(open_changed(flip_byte(bytes, 41)), Contains("its header is damaged (wrong checksum)"));
  CHECK_THROWS_WITH(open_changed(rewritten([](ShardHeader& h) { h.version = 2; })),
                    Contains("its format version is 2, this program reads 1"));
  CHECK_THROWS_WITH(open_changed(rewritten([](ShardHeader& h) { h.token_size = 3; })),
                    Contains("its tokens have 3 bytes"));
  CHECK_THROWS_WITH(open_changed(rewritten([](ShardHeader& h) { h.tokens = UINT64_MAX; })),
                    Contains("its header promises 0"));
  CHECK_THROWS_WITH(open_changed(rewritten([](ShardHeader& h) { h.tokenizer_hash ^= 1; })),
                    Contains("was made with tokenizer") && Contains("train-00000.tokens"));
  CHECK_THROWS_WITH(open_changed(rewritten([](ShardHeader& h) { h.checksum ^= 1; })),
                    Contains("is not the one in the manifest"));
  CHECK_THROWS_WITH(open_changed(flip_byte(bytes, bytes.size() - 1)),
                    Contains("its document index is damaged"));
  const DataFolder flipped = open_changed(flip_byte(bytes, 100));
  CHECK_THROWS_WITH(flipped.train().shards()[0].verify(),
                    Contains("its checksum is") && Contains("build the data again"));
  CHECK_THROWS_WITH(flipped.verify_if_quick(), Contains("train-00000.tokens") && Contains("its checksum is"));
  CHECK_NOTHROW(open_changed(bytes).train().shards()[0].verify());
  const DataFolder whole = open_changed(bytes);
  CHECK(whole.verify_if_quick());
  CHECK(whole.size_in_bytes() > static_cast<int64_t>(bytes.size()));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(DataFolder::open(copy / "data"),
                    Contains("train-00000.tokens: cannot open it: No such file"));
}

TEST_CASE("a damaged manifest names the file and the fault") {
  TemporaryFolder copy;
  std::filesystem::copy(corpus().folder / "data", copy / "data", std::filesystem::copy_options::recursive);
  const std::filesystem::path path = copy / "data/manifest.json";
  const auto manifest = nlohmann::json::parse(read_file(path));
  write_file(path, "{");
  CHECK_THROWS_WITH(DataFolder::open(copy / "data"), Contains("manifest.json is damaged"));
  write_file(path, "{\"format\": 3}");
  CHECK_THROWS_WITH(DataFolder::open(copy / "data"), Contains("manifest.json is no data manifest of bov"));
  auto changed = manifest;
  changed["version"] = 7;
  write_file(path, changed.dump());
  CHECK_THROWS_WITH(DataFolder::open(copy / "data"), Contains("has version 7, this program reads 1"));
  changed = manifest;
  changed.erase("train");
  write_file(path, changed.dump());
  CHECK_THROWS_WITH(DataFolder::open(copy / "data"),
                    Contains("manifest.json is damaged") && Contains("train"));
}

TEST_CASE("shards hold wide vocabularies in four bytes and refuse what they cannot hold") {
  TemporaryFolder folder;
  for (const auto& [vocabulary, size] : {std::pair{65536, 2u}, std::pair{65537, 4u}}) {
    TokenShardWriter writer(vocabulary, 0, 99);
    const std::vector<std::vector<int32_t>> documents = {{1, vocabulary - 1, 2}, {7}, {3, 4, 5, 6, 65535}};
    for (const auto& tokens : documents) writer.add(tokens, 10);
    CHECK_THROWS_WITH(writer.add(std::vector<int32_t>{vocabulary}, 1), Contains("outside the vocabulary"));
    CHECK_THROWS_WITH(writer.add(std::vector<int32_t>{}, 0), Contains("no empty documents"));
    CHECK(writer.write(folder / "s.tokens").token_size == size);
    CHECK(writer.documents() == 0);
    const TokenShard shard = TokenShard::open(folder / "s.tokens");
    shard.verify();
    CHECK(shard.info().text_bytes == 30);
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(shard.length(i)));
      shard.copy(i, 0, ids);
      CHECK(ids == documents[static_cast<size_t>(i)]);
    }
    std::vector<int32_t> part(2);
    shard.copy(2, 2, part);
    CHECK(part == std::vector<int32_t>{5, 6});
    CHECK_THROWS_WITH(shard.copy(2, 4, part), Contains("tokens [4, 6) of document 2, which has 5"));
    CHECK_THROWS_WITH(shard.length(3), Contains("document 3 of 3"));
  }
}
