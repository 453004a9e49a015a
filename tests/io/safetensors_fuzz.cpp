#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "bov/io/safetensors.h"

/// Reads any bytes as a safetensors file: a target for libFuzzer, which io_test calls with the files of
/// safetensors_corpus/. A file is either read or refused by a std::runtime_error that names it; everything else
/// ends the process.
namespace {

class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("safetensors", 0)) {
    require(descriptor_ >= 0 && ::write(descriptor_, data, size) == static_cast<ssize_t>(size),
            "no memory file");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  static void require(bool holds, const std::string& otherwise) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", otherwise.c_str());
    std::abort();
  }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const bov::SafetensorsReader reader(file.path());
    size_t bytes = 0;
    for (const auto& [name, info] : reader.tensors()) {
      const at::Tensor tensor = reader.tensor(name);
      MemoryFile::require(tensor.sizes() == info.shape && tensor.scalar_type() == info.dtype,
                          "not as announced: " + name);
      bytes += tensor.nbytes();
    }
    MemoryFile::require(bytes <= size, "more bytes of tensors than of the file");
  } catch (const std::runtime_error& error) {
    MemoryFile::require(std::string(error.what()).find(file.path()) != std::string::npos,
                        std::string("the file is not named: ") + error.what());
  }
  return 0;
}
