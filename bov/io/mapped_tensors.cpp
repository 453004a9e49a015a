#include "bov/io/mapped_tensors.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace bov {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& problem) {
  throw std::runtime_error("safetensors file '" + path.string() + "': " + problem);
}

std::shared_ptr<void> map_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  void* memory = MAP_FAILED;
  size_t size = 0;
  if (::fstat(descriptor, &status) == 0) {
    size = static_cast<size_t>(status.st_size);
    memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  const int error = errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) fail(path, std::string("cannot be mapped: ") + std::strerror(error));
  // Rows are read here and there, so the pages after them are of no use.
  ::madvise(memory, size, MADV_RANDOM);
  return {memory, [size](void* mapped) { ::munmap(mapped, size); }};
}

}  // namespace

MappedTensors::MappedTensors(const std::filesystem::path& path)
    : path_(path), tensors_(SafetensorsReader(path).tensors()), mapping_(map_file(path)) {}

at::Tensor MappedTensors::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(path_, "holds no tensor '" + name + "'");
  const SafetensorsInfo& info = found->second;
  const size_t item = c10::elementSize(info.dtype);
  if (info.dtype == at::kBool || info.begin % item != 0) {
    fail(path_, "'" + name + "' cannot be mapped: it is a bool, or not aligned to its elements");
  }
  char* data = static_cast<char*>(mapping_.get()) + info.begin;
  return at::from_blob(
      data, info.shape, [mapping = mapping_](void*) {}, info.dtype);
}

void will_need(const at::Tensor& tensor) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) + tensor.nbytes();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

}  // namespace bov
