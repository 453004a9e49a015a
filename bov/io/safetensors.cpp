#include "bov/io/safetensors.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "bov/io/atomic_file.h"
#include "bov/io/safetensors_header.h"
#include "bov/io/tensor_rows.h"

namespace bov {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr uint64_t kPrefixBytes = sizeof(uint64_t);

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& problem) {
  throw std::runtime_error("safetensors file '" + path.string() + "': " + problem);
}

int open_to_read(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  return descriptor;
}

/// Rows are made and written in pieces of about this size.
constexpr int64_t kPieceBytes = int64_t{16} << 20;

void check_storable(const std::string& name, at::Layout layout, at::ScalarType dtype) {
  TORCH_CHECK(name != "__metadata__", "a safetensors file cannot hold a tensor called '__metadata__'");
  TORCH_CHECK(layout == at::kStrided && is_safetensors_dtype(dtype), "tensor '", name, "' is ", layout, " ",
              dtype, "; a safetensors file holds strided tensors of ", safetensors_dtype_names());
}

uint64_t count_bytes(const SafetensorsInfo& info) {
  return static_cast<uint64_t>(c10::multiply_integers(info.shape)) * c10::elementSize(info.dtype);
}

// Aligned layout: the header is a multiple of 8 bytes, and a tensor follows only those of larger or equal
// elements.
std::vector<std::pair<std::string, SafetensorsInfo>> lay_out(const TensorMap& tensors,
                                                             const TensorRowsMap& rows) {
  std::map<std::string, SafetensorsInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.defined(), "tensor '", name, "' is undefined; a safetensors file cannot hold it");
    check_storable(name, tensor.layout(), tensor.scalar_type());
    infos[name] = {tensor.scalar_type(), tensor.sizes().vec(), 0, 0};
  }
  for (const auto& [name, made] : rows) {
    check_storable(name, at::kStrided, made.dtype);
    TORCH_CHECK(!made.shape.empty() && made.rows, "tensor '", name, "' has no rows to be written in");
    TORCH_CHECK(infos.emplace(name, SafetensorsInfo{made.dtype, made.shape, 0, 0}).second, "tensor '", name,
                "' is given twice");
  }
  std::vector<std::pair<std::string, SafetensorsInfo>> layout(infos.begin(), infos.end());
  std::stable_sort(layout.begin(), layout.end(), [](const auto& left, const auto& right) {
    return c10::elementSize(left.second.dtype) > c10::elementSize(right.second.dtype);
  });
  uint64_t offset = 0;
  for (auto& [name, info] : layout) {
    info.begin = offset;
    offset += count_bytes(info);
    info.end = offset;
  }
  return layout;
}

void write_tensor(AtomicFile& file, const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg();
  file.write(bytes.data_ptr(), bytes.nbytes());
}

void write_rows(AtomicFile& file, const std::string& name, const TensorRows& tensor) {
  const int64_t rows = tensor.shape.front();
  std::vector<int64_t> shape = tensor.shape;
  shape.front() = 1;
  const auto row_bytes = static_cast<int64_t>(count_bytes({tensor.dtype, shape, 0, 0}));
  const int64_t step = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, row_bytes));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t end = std::min(rows, begin + step);
    shape.front() = end - begin;
    const at::Tensor piece = tensor.rows(begin, end);
    TORCH_CHECK(piece.defined() && piece.scalar_type() == tensor.dtype && piece.sizes() == shape, "rows ",
                begin, " to ", end, " of tensor '", name, "' are ", piece.toString(), " ",
                piece.defined() ? piece.sizes() : at::IntArrayRef(), "; expected ", tensor.dtype, " ",
                at::IntArrayRef(shape));
    write_tensor(file, piece);
  }
}

}  // namespace

// The object is complete once the first constructor returns, so an error in the header still closes the file.
SafetensorsReader::SafetensorsReader(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

SafetensorsReader::SafetensorsReader(std::filesystem::path path)
    : SafetensorsReader(path, open_to_read(path)) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(path_, std::string("cannot be read: ") + std::strerror(errno));
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t header_bytes = read_header_size(file_bytes);
  std::string text(header_bytes, '\0');
  read(text.data(), kPrefixBytes, header_bytes);
  const uint64_t data_begin = kPrefixBytes + header_bytes;
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(text, file_bytes - data_begin);
  } catch (const std::runtime_error& error) {
    fail(path_, error.what());
  }
  for (auto& [name, info] : header.tensors) {
    info.begin += data_begin;
    info.end += data_begin;
  }
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

uint64_t SafetensorsReader::read_header_size(uint64_t file_bytes) const {
  if (file_bytes < kPrefixBytes)
    fail(path_, "has " + std::to_string(file_bytes) + " bytes, too few for a header");
  uint64_t header_bytes = 0;
  read(&header_bytes, 0, kPrefixBytes);
  if (header_bytes > kMaxHeaderBytes) {
    fail(path_, "its header would have " + std::to_string(header_bytes) + " bytes; at most " +
                    std::to_string(kMaxHeaderBytes) + " are allowed");
  }
  if (header_bytes > file_bytes - kPrefixBytes) {
    fail(path_, "its header has " + std::to_string(header_bytes) + " bytes, but only " +
                    std::to_string(file_bytes - kPrefixBytes) + " follow (truncated?)");
  }
  return header_bytes;
}

SafetensorsReader::~SafetensorsReader() {
  ::close(descriptor_);
}

const SafetensorsInfo& SafetensorsReader::info(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(path_, "holds no tensor '" + name + "'");
  return found->second;
}

at::Tensor SafetensorsReader::tensor(const std::string& name) const {
  const SafetensorsInfo& entry = info(name);
  // A bool of any byte but 0 and 1 is undefined behaviour, so bools are read as bytes and compared to 0.
  const bool is_bool = entry.dtype == at::kBool;
  at::Tensor result = at::empty(entry.shape, is_bool ? at::kByte : entry.dtype);
  read(result.data_ptr(), entry.begin, entry.end - entry.begin);
  return is_bool ? result.ne(0) : result;
}

void SafetensorsReader::read(void* destination, uint64_t offset, uint64_t size) const {
  char* next = static_cast<char*>(destination);
  while (size > 0) {
    const ssize_t count = ::pread(descriptor_, next, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0)
      fail(path_, "ends at byte " + std::to_string(offset) + "; it was truncated after it was opened");
    next += count;
    offset += static_cast<uint64_t>(count);
    size -= static_cast<uint64_t>(count);
  }
}

TensorMap load_safetensors(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  TensorMap tensors;
  for (const auto& [name, info] : reader.tensors()) tensors[name] = reader.tensor(name);
  return tensors;
}

void save_safetensors(const std::filesystem::path& path,
                      const TensorMap& tensors,
                      const StringMap& metadata) {
  save_safetensors(path, tensors, metadata, {});
}

void save_safetensors(const std::filesystem::path& path,
                      const TensorMap& tensors,
                      const StringMap& metadata,
                      const TensorRowsMap& rows) {
  const auto layout = lay_out(tensors, rows);
  const std::string header = make_safetensors_header(layout, metadata);
  const uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.write(&header_bytes, kPrefixBytes);
  file.write(header);
  for (const auto& [name, info] : layout) {
    if (const auto made = rows.find(name); made != rows.end()) {
      write_rows(file, name, made->second);
    } else {
      write_tensor(file, tensors.at(name));
    }
  }
  file.commit();
}

}  // namespace bov
