#include "experiments/data/input_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace bov::experiments {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
// Largest window, and a gzip header and trailer around the data (zlib's manual, inflateInit2).
constexpr int kGzipWindowBits = 15 + 16;

}  // namespace

// zlib's stream; its input window is also that of a file that is not compressed.
struct InputFile::Stream {
  Stream() {
    if (inflateInit2(&zlib, kGzipWindowBits) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream zlib{};
  std::array<Bytef, kBufferBytes> buffer;
};

InputFile::InputFile(const std::string& input)
    : name_(input == "-" ? "standard input" : input), stream_(std::make_unique<Stream>()) {
  descriptor_ = input == "-" ? dup(STDIN_FILENO) : open(input.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw std::runtime_error("cannot open " + name_ + ": " + std::strerror(errno));
}

InputFile::~InputFile() {
  close(descriptor_);
}

size_t InputFile::read(std::span<char> out) {
  if (form_ == Form::kUnknown) {
    form_ = begins_as_gzip() ? Form::kGzip : Form::kPlain;
    in_member_ = form_ == Form::kGzip;
  }
  return form_ == Form::kGzip ? decompress(out) : copy(out);
}

size_t InputFile::copy(std::span<char> out) {
  z_stream& zlib = stream_->zlib;
  if (zlib.avail_in == 0 && !fill()) return 0;
  const size_t count = std::min<size_t>(out.size(), zlib.avail_in);
  std::memcpy(out.data(), zlib.next_in, count);
  zlib.next_in += count;
  zlib.avail_in -= static_cast<uInt>(count);
  return count;
}

size_t InputFile::decompress(std::span<char> out) {
  z_stream& zlib = stream_->zlib;
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  while (zlib.avail_out == out.size()) {
    if (zlib.avail_in == 0 && !fill()) {
      if (in_member_)
        throw std::runtime_error(name_ + " ends in the middle of its compressed data; it is truncated");
      return 0;
    }
    if (!in_member_) {
      if (!begins_as_gzip()) throw std::runtime_error(name_ + " goes on behind its compressed data");
      inflateReset(&zlib);
      in_member_ = true;
    }
    const int code = inflate(&zlib, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      in_member_ = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      throw std::runtime_error(
          name_ + " cannot be read: " + (zlib.msg == nullptr ? "damaged compressed data" : zlib.msg));
    }
  }
  return out.size() - zlib.avail_out;
}

// Reads on behind what is left of the input; false at the end of the file.
bool InputFile::fill() {
  z_stream& zlib = stream_->zlib;
  Bytef* begin = stream_->buffer.data();
  if (zlib.avail_in > 0) std::memmove(begin, zlib.next_in, zlib.avail_in);
  zlib.next_in = begin;
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, begin + zlib.avail_in, kBufferBytes - zlib.avail_in);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw std::runtime_error(name_ + " cannot be read: " + std::strerror(errno));
  zlib.avail_in += static_cast<uInt>(count);
  return count > 0;
}

bool InputFile::begins_as_gzip() {
  z_stream& zlib = stream_->zlib;
  while (zlib.avail_in < 2 && fill()) {
  }
  return zlib.avail_in >= 2 && zlib.next_in[0] == 0x1f && zlib.next_in[1] == 0x8b;
}

}  // namespace bov::experiments
