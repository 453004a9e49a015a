#include <ATen/ATen.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "bov/io/atomic_file.h"
#include "bov/io/safetensors.h"
#include "bov/io/tensor_rows.h"
#include "support/catch.h"
#include "support/file_size_limit.h"
#include "support/skip.h"
#include "support/temporary_folder.h"
#include "support/tensor_compare.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  // safetensors_fuzz.cpp

namespace bov {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::StartsWith;
using testing::bitwise_equal;
using testing::FileSizeLimit;
using testing::TemporaryFolder;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// A safetensors file of this header and `data_bytes` zeros, whatever it is worth.
fs::path write_raw(const TemporaryFolder& folder, const std::string& header, size_t data_bytes) {
  const fs::path path = folder / "raw.safetensors";
  std::ofstream file(path, std::ios::binary);
  const uint64_t size = header.size();
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << header << std::string(data_bytes, '\0');
  return path;
}

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {{at::kDouble, "float64"},
                                                              {at::kFloat, "float32"},
                                                              {at::kHalf, "float16"},
                                                              {at::kBFloat16, "bfloat16"},
                                                              {at::kFloat8_e4m3fn, "float8_e4m3fn"},
                                                              {at::kFloat8_e5m2, "float8_e5m2"},
                                                              {at::kComplexFloat, "complex64"},
                                                              {at::kLong, "int64"},
                                                              {at::kInt, "int32"},
                                                              {at::kShort, "int16"},
                                                              {at::kChar, "int8"},
                                                              {at::kUInt64, "uint64"},
                                                              {at::kUInt32, "uint32"},
                                                              {at::kUInt16, "uint16"},
                                                              {at::kByte, "uint8"},
                                                              {at::kBool, "bool"}};

/// The rule of tests/python/safetensors_interchange.py.
TensorMap tensors_of_every_dtype() {
  TensorMap tensors;
  for (const auto& [dtype, name] : kDtypes) {
    const std::string prefix = name;
    tensors[prefix + ".matrix"] = at::arange(15).reshape({3, 5}).to(dtype);
    tensors[prefix + ".scalar"] = at::ones({}).to(dtype);
    tensors[prefix + ".empty"] = at::empty({0, 7}, dtype);
  }
  tensors["schlüssel \"γ\""] = at::full({1}, 0.1, at::kDouble);
  return tensors;
}

const StringMap kMetadata{{"source", "bov"}, {"text", "quote \" and line\nbreak, größe"}};

void check_equal(const TensorMap& found, const TensorMap& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    REQUIRE(found.count(name) == 1);
    CHECK(bitwise_equal(found.at(name), tensor));
  }
}

TEST_CASE("an atomic file appears at commit and leaves nothing behind without it") {
  const TemporaryFolder folder;
  const fs::path path = folder / "file.txt";
  atomic_write_text(path, "first");
  {
    AtomicFile file(path);
    file.write("second, ");
    file.write("part");
    CHECK(read_text(path) == "first");
    CHECK(count_entries(folder.path()) == 2);
  }
  CHECK(read_text(path) == "first");
  CHECK(count_entries(folder.path()) == 1);
  AtomicFile file(path);
  file.write("third");
  file.commit();
  CHECK(read_text(path) == "third");
  CHECK(count_entries(folder.path()) == 1);
  CHECK_THROWS_AS(file.write("x"), std::logic_error);
  CHECK_THROWS_AS(file.commit(), std::logic_error);
}

TEST_CASE("two atomic files of one name do not mix") {
  const TemporaryFolder folder;
  AtomicFile one(folder / "file");
  AtomicFile two(folder / "file");
  one.write("one");
  two.write("two");
  two.commit();
  one.commit();
  CHECK(read_text(folder / "file") == "one");
}

TEST_CASE("an atomic write that fails names the file and the reason and keeps the earlier file") {
  const TemporaryFolder folder;
  const fs::path path = folder / "file.txt";
  atomic_write_text(path, "earlier");
  {
    const FileSizeLimit full(1000);
    CHECK_THROWS_WITH(
        atomic_write_text(path, std::string(5000, 'x')),
        Contains("cannot write '" + path.string() + "': File too large") && Contains("untouched"));
  }
  CHECK(read_text(path) == "earlier");
  CHECK_THROWS_WITH(atomic_write_text(folder / "none/file", "x"),
                    Contains("cannot create '") && Contains("none/file': No such file or directory"));
  CHECK_THROWS_WITH(atomic_write_text(path / "below", "x"), Contains("Not a directory"));
  fs::create_directory(folder / "taken");
  CHECK_THROWS_WITH(atomic_write_text(folder / "taken", "x"),
                    Contains("cannot put in place '") && Contains("taken"));
  CHECK(count_entries(folder.path()) == 2);
  CHECK_THROWS_WITH(sync_folder(folder / "none"), Contains("cannot flush the folder '"));
}

TEST_CASE(
    "safetensors: every dtype, scalars, empty tensors and metadata survive, and equal input gives equal "
    "bytes") {
  const TemporaryFolder folder;
  const TensorMap tensors = tensors_of_every_dtype();
  save_safetensors(folder / "a", tensors, kMetadata);
  save_safetensors(folder / "b", tensors, kMetadata);
  CHECK(read_text(folder / "a") == read_text(folder / "b"));
  check_equal(load_safetensors(folder / "a"), tensors);

  const SafetensorsReader reader(folder / "a");
  CHECK(reader.metadata() == kMetadata);
  for (const auto& [name, info] : reader.tensors()) {
    INFO(name);
    CHECK(info.begin % c10::elementSize(info.dtype) == 0);
  }
  CHECK(reader.info("int16.matrix").shape == std::vector<int64_t>{3, 5});
  CHECK(reader.info("int16.matrix").dtype == at::kShort);
  CHECK_THROWS_WITH(reader.tensor("none"), Contains("holds no tensor 'none'"));
}

TEST_CASE("safetensors: the bytes of a small file are exactly these") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {{"b", at::ones({2}, at::kByte)}, {"w", at::ones({1}, at::kInt)}},
                   {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded);
  expected += header + std::string(padded - header.size(), ' ') + std::string("\1\0\0\0\1\1", 6);
  CHECK(read_text(folder / "a") == expected);
}

TEST_CASE("safetensors: strided, conjugate-free views and special numbers are stored as their values") {
  const TemporaryFolder folder;
  const at::Tensor base = at::arange(60, at::kFloat).reshape({3, 4, 5});
  const at::Tensor special = at::tensor({-0.0, NAN, INFINITY, -INFINITY, 5e-324}, at::kDouble);
  const at::Tensor negative = at::imag(at::complex(base, base + 1).conj());
  REQUIRE(negative.is_neg());
  const TensorMap tensors{{"transposed", base.permute({2, 0, 1})},
                          {"sliced", base.slice(1, 1, 4, 2)},
                          {"expanded", base[0][0].expand({7, 5})},
                          {"gradient", at::ones({3}).set_requires_grad(true)},
                          {"negative", negative},
                          {"conjugate", at::complex(base, base + 1).conj()},
                          {"special", special}};
  save_safetensors(folder / "a", tensors);
  const TensorMap loaded = load_safetensors(folder / "a");
  check_equal(loaded, {{"transposed", base.permute({2, 0, 1}).contiguous()},
                       {"sliced", base.slice(1, 1, 4, 2).contiguous()},
                       {"expanded", base[0][0].repeat({7, 1})},
                       {"gradient", at::ones({3})},
                       {"negative", -(base + 1)},
                       {"conjugate", at::complex(base, -(base + 1))},
                       {"special", special}});
  CHECK(loaded.at("transposed").is_contiguous());
  save_safetensors(folder / "none", {});
  CHECK(load_safetensors(folder / "none").empty());
}

TEST_CASE("safetensors: a tensor given in rows is made in pieces and stored as if it had been whole") {
  const TemporaryFolder folder;
  // 40 rows of a mebibyte.
  constexpr int64_t kRows = 40, kWidth = 1 << 18;
  const auto make = [](int64_t begin, int64_t end) {
    return at::arange(begin, end, at::kFloat).unsqueeze(1).expand({end - begin, kWidth});
  };
  int64_t next = 0;
  const TensorRows large{
      .dtype = at::kFloat, .shape = {kRows, kWidth}, .rows = [&](int64_t begin, int64_t end) {
        CHECK(begin == next);
        CHECK((end - begin) * kWidth * 4 <= 16 << 20);
        next = end;
        return make(begin, end);
      }};
  const TensorRows empty{.dtype = at::kInt, .shape = {0, 3}, .rows = [](int64_t, int64_t) {
                           FAIL("asked for rows that there are none of");
                           return at::Tensor();
                         }};
  const at::Tensor whole = at::arange(5, at::kDouble);
  save_safetensors(folder / "rows", {{"w", whole}}, {}, {{"large", large}, {"empty", empty}});
  CHECK(next == kRows);
  save_safetensors(folder / "whole",
                   {{"w", whole}, {"large", make(0, kRows)}, {"empty", at::empty({0, 3}, at::kInt)}});
  CHECK(read_text(folder / "rows") == read_text(folder / "whole"));
}

TEST_CASE("safetensors: rows that are not what was announced are refused, and nothing is written") {
  const TemporaryFolder folder;
  const auto save = [&](TensorRows rows, const TensorMap& tensors = {}) {
    save_safetensors(folder / "a", tensors, {}, {{"t", std::move(rows)}});
  };
  const auto ones = [](int64_t begin, int64_t end) { return at::ones({end - begin, 2}); };
  CHECK_THROWS_WITH(save({at::kFloat, {3, 3}, ones}),
                    Contains("rows 0 to 3 of tensor 't' are CPUFloatType [3, 2]; expected Float [3, 3]"));
  CHECK_THROWS_WITH(save({at::kDouble, {3, 2}, ones}), Contains("expected Double [3, 2]"));
  CHECK_THROWS_WITH(save({at::kFloat, {3, 2}, [](int64_t, int64_t) { return at::Tensor(); }}),
                    Contains("'t'"));
  CHECK_THROWS_WITH(save({at::kFloat, {}, ones}), Contains("'t' has no rows"));
  CHECK_THROWS_WITH(save({at::kComplexDouble, {3, 2}, ones}), Contains("ComplexDouble"));
  CHECK_THROWS_WITH(save({at::kFloat, {3, 2}, ones}, {{"t", at::ones({1})}}), Contains("'t' is given twice"));
  CHECK(count_entries(folder.path()) == 0);
}

TEST_CASE("safetensors: a tensor that the format cannot hold is refused by name") {
  const TemporaryFolder folder;
  const auto save = [&](const at::Tensor& tensor, const std::string& name) {
    save_safetensors(folder / "a", {{name, tensor}});
  };
  CHECK_THROWS_WITH(
      save(at::zeros({2}, at::kComplexDouble), "c"),
      Contains("'c' is Strided ComplexDouble; a safetensors file holds strided tensors of F64 "));
  CHECK_THROWS_WITH(save(at::eye(2).to_sparse(), "s"), Contains("'s'") && Contains("Sparse"));
  CHECK_THROWS_WITH(save(at::Tensor(), "u"), Contains("'u' is undefined"));
  CHECK_THROWS_WITH(save(at::zeros({2}), "__metadata__"), Contains("'__metadata__'"));
  CHECK_THROWS_WITH(save(at::zeros({2}), "w\xff.\xce\xb3"),
                    StartsWith("the name of tensor \"w\xef\xbf\xbd.\xce\xb3\" is no UTF-8"));
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {}, {{"\xce", "v"}}),
                    StartsWith("the name of metadata \"\xef\xbf\xbd\" is no UTF-8"));
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {}, {{"text", "\x80"}}),
                    StartsWith("metadata \"text\" is no UTF-8"));
  CHECK(count_entries(folder.path()) == 0);
}

TEST_CASE("safetensors: a reader keeps its version of a file that is replaced, and owns what it returns") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {{"w", at::ones({4})}});
  const SafetensorsReader reader(folder / "a");
  save_safetensors(folder / "a", {{"v", at::zeros({100})}});
  at::Tensor tensor = reader.tensor("w");
  CHECK(bitwise_equal(tensor, at::ones({4})));
  tensor.zero_();
  CHECK(bitwise_equal(reader.tensor("w"), at::ones({4})));
}

TEST_CASE("safetensors: a bool byte other than 0 reads as true") {
  const TemporaryFolder folder;
  const fs::path path = write_raw(folder, R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 0);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string("\0\1\2", 3);
  CHECK(bitwise_equal(load_safetensors(path).at("b"), at::tensor({0, 1, 1}).to(at::kBool)));
}

TEST_CASE(
    "safetensors: unaligned tensors and spaces after the header, as other writers leave them, are read") {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}   )";
  CHECK(bitwise_equal(load_safetensors(write_raw(folder, header, 9)).at("b"), at::zeros({1}, at::kDouble)));
}

struct Corruption {
  const char* header;
  size_t data_bytes;
  const char* message;
};

TEST_CASE("safetensors: every kind of bad header is refused with its reason") {
  const TemporaryFolder folder;
  const Corruption corruptions[] = {
      {"", 0, "does not begin with '{'"},
      {"[1]", 0, "does not begin with '{'"},
      {R"({"a":)", 0, "the header is no JSON, byte 6 of it shows"},
      {"{} x", 0, "the header is no JSON, byte 4 of it shows"},
      {"{\"a\xff\":1}", 0, "the header is no JSON, byte 4 of it shows"},
      {R"({"a":1e999})", 0, "the header is no JSON, a number in it is too large"},
      {R"({"a":1})", 0, "tensor 'a': is no JSON object"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'a': has no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor 'a': has no shape"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor 'a': has no data_offsets"},
      {R"({"a":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}})", 1,
       "dtype \"F8_E8M0\" is unknown; expected one of F64 F32 F16 BF16 F8_E4M3 F8_E5M2 C64 I64 I32 I16 I8 "
       "U64 U32 U16 U8 BOOL"},
      {R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4, "shape is no list"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "shape holds -1"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "shape holds 1.0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "data_offsets is no pair"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,"4"]}})", 4, "data_offsets holds \"4\""},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "lie outside the file"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "which has 7 data bytes (truncated?)"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       "span 8 bytes; shape [3] of F32 has 12"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "64 bits"},
      {R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0, "64 bits"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0, "64 bits"},
      {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0]}})", 0, "shape holds"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensor 'b' begins at data byte 1; expected 2 (tensors overlap)"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "tensor 'b' begins at data byte 3; expected 2 (a hole)"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3,
       "end at data byte 2, but the file has 3"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "'a' is given twice"},
      {R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "'dtype' is given twice"},
      {R"({"__metadata__":{"k":1}})", 0, "'__metadata__': 'k' is 1; expected text"},
      {R"({"__metadata__":[]})", 0, "'__metadata__': is no JSON object"},
      {R"({"__metadata__":{"k":{"l":{"m":{}}}}})", 0, "nested too deeply"},
  };
  for (const auto& [header, data_bytes, message] : corruptions) {
    INFO(header);
    const fs::path path = write_raw(folder, header, data_bytes);
    CHECK_THROWS_WITH(SafetensorsReader(path), Contains("'" + path.string() + "'") && Contains(message));
  }
}

TEST_CASE("safetensors: a file cut at any byte is refused") {
  const TemporaryFolder folder;
  save_safetensors(folder / "whole", {{"w", at::ones({3})}, {"b", at::ones({5}, at::kByte)}});
  const std::string bytes = read_text(folder / "whole");
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::ofstream(folder / "cut", std::ios::binary) << bytes.substr(0, size);
    INFO(size);
    CHECK_THROWS_AS(SafetensorsReader(folder / "cut"), std::runtime_error);
  }
  std::ofstream(folder / "cut", std::ios::binary) << bytes;
  const SafetensorsReader reader(folder / "cut");
  fs::resize_file(folder / "cut", bytes.size() - 1);
  CHECK_THROWS_WITH(reader.tensor("b"), Contains("truncated after it was opened"));
}

TEST_CASE("safetensors: a header size without sense is refused before it is read") {
  const TemporaryFolder folder;
  const auto write_size = [&](uint64_t size) {
    std::ofstream file(folder / "a", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  };
  write_size(100'000'001);
  CHECK_THROWS_WITH(SafetensorsReader(folder / "a"), Contains("would have 100000001 bytes"));
  write_size(~uint64_t{0});
  CHECK_THROWS_WITH(SafetensorsReader(folder / "a"), Contains("would have 18446744073709551615 bytes"));
  write_size(10);
  CHECK_THROWS_WITH(SafetensorsReader(folder / "a"), Contains("has 10 bytes, but only 0 follow"));
  CHECK_THROWS_WITH(SafetensorsReader(folder / "none"),
                    Contains("cannot be opened: No such file or directory"));
  CHECK_THROWS_WITH(SafetensorsReader(folder.path()), Contains(folder.path().string()));
}

TEST_CASE("safetensors: every file of the fuzzer's corpus is read or refused by name") {
  size_t read = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(BOV_SOURCE_DIR) / "tests/io/safetensors_corpus")) {
    INFO(entry.path());
    const std::string bytes = read_text(entry.path());
    CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0);
    try {
      SafetensorsReader reader(entry.path());
      ++read;
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  CHECK(read >= 5);
  CHECK(refused >= 14);
}

TEST_CASE("safetensors: Python's library reads our files and we read its") {
  const TemporaryFolder folder;
  const fs::path source = BOV_SOURCE_DIR;
  const fs::path venv = source / ".venv/bin/python3";
  const std::string python = fs::exists(venv) ? venv.string() : "python3";
  save_safetensors(folder / "ours", tensors_of_every_dtype(), kMetadata);
  const std::string command = "'" + python + "' '" +
                              (source / "tests/python/safetensors_interchange.py").string() + "' '" +
                              (folder / "ours").string() + "' '" + (folder / "theirs").string() + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
    BOV_SKIP("no Python with torch and safetensors (" << python << ")");
  }
  REQUIRE(status == 0);
  check_equal(load_safetensors(folder / "theirs"), tensors_of_every_dtype());
  CHECK(SafetensorsReader(folder / "theirs").metadata() == kMetadata);
}

}  // namespace
}  // namespace bov
