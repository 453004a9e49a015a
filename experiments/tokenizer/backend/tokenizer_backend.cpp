#include "experiments/tokenizer/backend/tokenizer_backend.h"

#include <dlfcn.h>

#include <array>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include "experiments/tokenizer/backend/backend_api.h"

namespace bov::experiments {
namespace {

constexpr const char* kLibrary = "libbov_tokenizer.so";

// Beside the program, or in the lib folder beside its bin folder: the layouts of the build tree and of an
// installation.
std::filesystem::path find_library() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& candidate : {folder / kLibrary, folder.parent_path() / "lib" / kLibrary}) {
    if (std::filesystem::exists(candidate)) return candidate;
  }
  throw std::runtime_error(std::string(kLibrary) + " was not found beside the program, in " +
                           folder.string() + ", nor in " + (folder.parent_path() / "lib").string());
}

const bov_tokenizer_api& load_api() {
  const std::filesystem::path path = find_library();
  void* library = dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("cannot load " + path.string() + ": " + dlerror());
  auto* get_api = reinterpret_cast<decltype(&bov_tokenizer_get_api)>(dlsym(library, "bov_tokenizer_get_api"));
  if (get_api == nullptr) throw std::runtime_error(path.string() + " is no tokenizer library of bov");
  return *get_api();
}

// Loaded at first use and never unloaded: a namespace is a scarce resource (glibc has 16).
const bov_tokenizer_api& shared_api() {
  static const bov_tokenizer_api& api = load_api();
  return api;
}

using ErrorText = std::array<char, 512>;

}  // namespace

TokenizerBackend::TokenizerBackend(std::string_view model) : api_(shared_api()) {
  ErrorText error{};
  model_ = api_.load(model.data(), model.size(), error.data(), error.size());
  if (model_ == nullptr)
    throw std::runtime_error("SentencePiece cannot load the model: " + std::string(error.data()));
}

TokenizerBackend::~TokenizerBackend() {
  api_.release(model_);
}

int32_t TokenizerBackend::vocab_size() const {
  return api_.vocab_size(model_);
}

std::string TokenizerBackend::piece_bytes(int32_t id) const {
  std::array<char, 4096> bytes;
  const int64_t size = api_.piece_bytes(model_, id, bytes.data(), bytes.size());
  if (size < 0) throw std::runtime_error("piece " + std::to_string(id) + " of the model is too long");
  return std::string(bytes.data(), static_cast<size_t>(size));
}

void TokenizerBackend::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + text.size());
  ErrorText error{};
  const int64_t count =
      api_.encode(model_, text.data(), text.size(), ids.data() + before, error.data(), error.size());
  if (count < 0)
    throw std::runtime_error("SentencePiece cannot encode the text: " + std::string(error.data()));
  ids.resize(before + static_cast<size_t>(count));
}

void load_tokenizer_backend() {
  shared_api();
}

std::string train_backend_model(int32_t vocab_size,
                                double character_coverage,
                                const std::string& bos_piece,
                                const std::function<std::optional<std::string_view>()>& next_sentence) {
  struct Context {
    const std::function<std::optional<std::string_view>()>& next_sentence;
    std::string model;
    std::exception_ptr failure;
  } context{next_sentence, {}, {}};

  bov_tokenizer_training training{};
  training.vocab_size = vocab_size;
  training.character_coverage = character_coverage;
  training.bos_piece = bos_piece.c_str();
  training.context = &context;
  // An exception must not travel through the other namespace: it is kept and thrown again below.
  training.next_sentence = [](void* opaque, const char** text, size_t* size) -> int32_t {
    auto& self = *static_cast<Context*>(opaque);
    try {
      const std::optional<std::string_view> sentence = self.next_sentence();
      if (!sentence) return 0;
      *text = sentence->data();
      *size = sentence->size();
      return 1;
    } catch (...) {
      self.failure = std::current_exception();
      return 0;
    }
  };
  training.take_model = [](void* opaque, const char* model, size_t size) {
    static_cast<Context*>(opaque)->model.assign(model, size);
  };

  ErrorText error{};
  const int32_t status = shared_api().train(&training, error.data(), error.size());
  if (context.failure) std::rethrow_exception(context.failure);
  if (status != 0) throw std::runtime_error("SentencePiece training failed: " + std::string(error.data()));
  return std::move(context.model);
}

}  // namespace bov::experiments
