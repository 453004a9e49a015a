#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <numeric>

#include "data/test_text.h"
#include "experiments/tokenizer/tokenizer.h"
#include "experiments/tokenizer/tokenizer_training.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace bov::experiments;
using bov::testing::TemporaryFolder;

namespace {

// libc10 keeps its log level in a 4-byte int of this name; libsentencepiece has a 32-byte object of the same
// name. Seen from this program, the name must be libc10's, and the bytes around it must stay as they are
// whatever SentencePiece does.
constexpr const char* kSharedName = "FLAGS_minloglevel";
constexpr size_t kForeignSize = 32;

std::vector<char> bytes_at_shared_name() {
  const auto* address = static_cast<const char*>(dlsym(RTLD_DEFAULT, kSharedName));
  REQUIRE(address != nullptr);
  return std::vector<char>(address, address + kForeignSize);
}

std::string library_of(const void* address) {
  Dl_info info{};
  REQUIRE(dladdr(address, &info) != 0);
  return info.dli_fname;
}

bool program_sees_library(const std::string& name) {
  struct Search {
    const std::string& name;
    bool found = false;
  } search{name};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* opaque) {
        auto& wanted = *static_cast<Search*>(opaque);
        wanted.found |= std::string(info->dlpi_name).find(wanted.name) != std::string::npos;
        return 0;
      },
      &search);
  return search.found;
}

}  // namespace

TEST_CASE(
    "SentencePiece trains, encodes and decodes in a process with LibTorch, and neither touches the other") {
  const at::Tensor numbers = at::arange(1000, at::kFloat);
  REQUIRE(numbers.sum().item<float>() == 499500.0f);
  REQUIRE(library_of(dlsym(RTLD_DEFAULT, kSharedName)).find("libc10") != std::string::npos);
  const std::vector<char> before = bytes_at_shared_name();

  TemporaryFolder folder;
  const std::string text = bov::testing::random_text(1, 8000);
  bov::testing::write_file(folder / "text.txt", text);
  DocumentReader documents({(folder / "text.txt").string()});
  train_tokenizer(documents, {.vocab_size = 400, .validation_per_mille = 0}, folder / "tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(folder / "tokenizer");
  const std::vector<int32_t> expected = tokenizer.encode(text);
  CHECK(tokenizer.decode(expected) == text);

  // From LibTorch's own threads too, and after an error inside SentencePiece.
  CHECK_THROWS(train_tokenizer(documents, {.vocab_size = 90000}, folder / "too_large"));
  std::vector<char> equal(8, 0);
  at::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) equal[static_cast<size_t>(i)] = tokenizer.encode(text) == expected;
  });
  CHECK(equal == std::vector<char>(8, 1));

  CHECK(bytes_at_shared_name() == before);
  CHECK_FALSE(program_sees_library("libsentencepiece"));
  CHECK(dlsym(RTLD_DEFAULT, "bov_tokenizer_get_api") == nullptr);
  CHECK(at::matmul(numbers, numbers).item<float>() == Approx(332833500.0f));
  CHECK_THROWS_AS(numbers.view({3, 7}), c10::Error);
}
