#include "bov/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace bov {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {{at::kDouble, "F64"},
                                                              {at::kFloat, "F32"},
                                                              {at::kHalf, "F16"},
                                                              {at::kBFloat16, "BF16"},
                                                              {at::kFloat8_e4m3fn, "F8_E4M3"},
                                                              {at::kFloat8_e5m2, "F8_E5M2"},
                                                              {at::kComplexFloat, "C64"},
                                                              {at::kLong, "I64"},
                                                              {at::kInt, "I32"},
                                                              {at::kShort, "I16"},
                                                              {at::kChar, "I8"},
                                                              {at::kUInt64, "U64"},
                                                              {at::kUInt32, "U32"},
                                                              {at::kUInt16, "U16"},
                                                              {at::kByte, "U8"},
                                                              {at::kBool, "BOOL"}};

const char* dtype_name(at::ScalarType dtype) {
  const auto* found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const auto& row) { return row.first == dtype; });
  return found == std::end(kDtypes) ? nullptr : found->second;
}

at::ScalarType parse_dtype(const json& value) {
  for (const auto& [dtype, name] : kDtypes) {
    if (value == name) return dtype;
  }
  throw std::runtime_error("dtype " + value.dump() + " is unknown; expected one of " +
                           safetensors_dtype_names());
}

/// Parser callback: refuses names given twice, of which the parser would keep the last, and nesting that no
/// header has.
class StrictHeader {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth > 2) throw std::runtime_error("the header is nested too deeply");
    if (event == json::parse_event_t::object_start) keys_.at(static_cast<size_t>(depth)).clear();
    if (event == json::parse_event_t::key) {
      // The keys of an object are one level below its opening.
      const auto& name = parsed.get_ref<const std::string&>();
      if (!keys_.at(static_cast<size_t>(depth - 1)).insert(name).second) {
        throw std::runtime_error("'" + name + "' is given twice");
      }
    }
    return true;
  }

 private:
  std::array<std::set<std::string>, 3> keys_;
};

json parse_json(std::string_view text) {
  if (text.empty() || text.front() != '{') throw std::runtime_error("the header does not begin with '{'");
  StrictHeader strict;
  try {
    return json::parse(text, [&strict](int depth, json::parse_event_t event, json& parsed) {
      return strict(depth, event, parsed);
    });
  } catch (const json::parse_error& error) {
    throw std::runtime_error("the header is no JSON, byte " + std::to_string(error.byte) + " of it shows");
  } catch (const json::exception&) {
    throw std::runtime_error("the header is no JSON, a number in it is too large");
  }
}

uint64_t unsigned_integer(const json& value, const char* what) {
  if (!value.is_number_unsigned()) {
    throw std::runtime_error(std::string(what) + " holds " + value.dump() + "; expected integers from 0");
  }
  return value.get<uint64_t>();
}

const json& member(const json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end()) throw std::runtime_error(std::string("has no ") + name);
  return *found;
}

// Bytes of a tensor; the product must fit even without its zero sizes, because strides are computed from all
// the others.
uint64_t byte_size(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      throw std::runtime_error("its shape has more bytes than 64 bits can count");
    }
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

SafetensorsInfo parse_tensor(const json& entry, uint64_t data_size) {
  if (!entry.is_object()) throw std::runtime_error("is no JSON object");
  SafetensorsInfo info;
  info.dtype = parse_dtype(member(entry, "dtype"));
  const json& shape = member(entry, "shape");
  if (!shape.is_array()) throw std::runtime_error("shape is no list");
  for (const json& size : shape) {
    const uint64_t value = unsigned_integer(size, "shape");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw std::runtime_error("its shape has more bytes than 64 bits can count");
    }
    info.shape.push_back(static_cast<int64_t>(value));
  }
  const json& offsets = member(entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::runtime_error("data_offsets is no pair");
  info.begin = unsigned_integer(offsets[0], "data_offsets");
  info.end = unsigned_integer(offsets[1], "data_offsets");
  if (info.begin > info.end || info.end > data_size) {
    throw std::runtime_error("data_offsets " + offsets.dump() + " lie outside the file, which has " +
                             std::to_string(data_size) + " data bytes (truncated?)");
  }
  const uint64_t bytes = byte_size(info.shape, info.dtype);
  if (info.end - info.begin != bytes) {
    throw std::runtime_error("data_offsets " + offsets.dump() + " span " +
                             std::to_string(info.end - info.begin) + " bytes; shape " + shape.dump() +
                             " of " + dtype_name(info.dtype) + " has " + std::to_string(bytes));
  }
  return info;
}

StringMap parse_metadata(const json& entry) {
  StringMap metadata;
  if (!entry.is_object()) throw std::runtime_error("is no JSON object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw std::runtime_error("'" + key + "' is " + value.dump() + "; expected text");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The tensors must cover the data bytes exactly once.
void check_cover(const std::map<std::string, SafetensorsInfo>& tensors, uint64_t data_size) {
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, const std::string*>> spans;
  for (const auto& [name, info] : tensors) spans.push_back({{info.begin, info.end}, &name});
  std::sort(spans.begin(), spans.end());
  uint64_t covered = 0;
  for (const auto& [span, name] : spans) {
    if (span.first != covered) {
      throw std::runtime_error("tensor '" + *name + "' begins at data byte " + std::to_string(span.first) +
                               "; expected " + std::to_string(covered) +
                               (span.first < covered ? " (tensors overlap)" : " (a hole)"));
    }
    covered = span.second;
  }
  if (covered != data_size) {
    throw std::runtime_error("the tensors end at data byte " + std::to_string(covered) +
                             ", but the file has " + std::to_string(data_size));
  }
}

/// As JSON. Bytes that are no UTF-8 are left out, or become U+FFFD.
std::string quoted(const std::string& text, json::error_handler_t otherwise) {
  return json(text).dump(-1, ' ', false, otherwise);
}

void check_utf8(const std::string& text, const char* what, const std::string& name) {
  using otherwise = json::error_handler_t;
  TORCH_CHECK(quoted(text, otherwise::ignore) == quoted(text, otherwise::replace), what,
              quoted(name, otherwise::replace), " is no UTF-8; a safetensors file cannot hold it");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_size) {
  SafetensorsHeader header;
  const json root = parse_json(text);
  for (const auto& [name, entry] : root.items()) {
    try {
      if (name == kMetadata) {
        header.metadata = parse_metadata(entry);
      } else {
        header.tensors[name] = parse_tensor(entry, data_size);
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error((name == kMetadata ? "" : "tensor ") + ("'" + name + "': ") + error.what());
    }
  }
  check_cover(header.tensors, data_size);
  return header;
}

std::string make_safetensors_header(const std::vector<std::pair<std::string, SafetensorsInfo>>& tensors,
                                    const StringMap& metadata) {
  for (const auto& [name, info] : tensors) check_utf8(name, "the name of tensor ", name);
  for (const auto& [key, value] : metadata) {
    check_utf8(key, "the name of metadata ", key);
    check_utf8(value, "metadata ", key);
  }
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root[kMetadata] = metadata;
  for (const auto& [name, info] : tensors) {
    root[name] = {
        {"dtype", dtype_name(info.dtype)}, {"shape", info.shape}, {"data_offsets", {info.begin, info.end}}};
  }
  std::string text = root.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

bool is_safetensors_dtype(at::ScalarType dtype) {
  return dtype_name(dtype) != nullptr;
}

std::string safetensors_dtype_names() {
  std::string names;
  for (const auto& [dtype, name] : kDtypes) names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

}  // namespace bov
