#include "safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "fedgrab/core/error.h"
#include "fedgrab/core/nesting.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t max_rank = 64;  // ATen's own limit

/// As the library parses, but refuses a key given twice, which it would let through, and nesting the format never has.
json parse_header(const fs::path& path, const std::string& text) {
  // The parser takes a NUL for the end of the text and would ignore what follows.
  if (text.empty() || text.front() != '{' || text.find('\0') != std::string::npos)
    refuse_safetensors(path, "the header is not a JSON object");
  std::array<std::set<std::string>, 3> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (level >= keys.size()) refuse_safetensors(path, "the header is nested too deeply");
      if (level + 1 < keys.size()) keys[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (level < keys.size() && !keys[level].insert(key).second)
        refuse_safetensors(path, fmt::format("\"{}\" appears twice in the header", key));
    }
    return true;
  };
  try {
    return json::parse(shallow_json(text, path.string(), Fault::checkpoint), check);
  } catch (const json::exception&) {
    refuse_safetensors(path, "the header is not valid JSON");
  }
}

/// Bytes of a tensor of this shape; nothing when they do not fit 63 bits. A zero counts as one, because strides are
/// computed that way.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, uint64_t element_size) {
  uint64_t bytes = element_size;
  bool empty = false;
  for (const int64_t extent : shape) {
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(extent, 1)), &bytes)) return std::nullopt;
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return empty ? 0 : bytes;
}

std::vector<uint64_t> naturals(const json& value) {
  if (!value.is_array()) throw std::invalid_argument("not a list");
  std::vector<uint64_t> numbers;
  for (const auto& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      throw std::invalid_argument("not a list of sizes");
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

SafetensorsEntry parse_entry(const fs::path& path, const std::string& name, const json& info) {
  SafetensorsEntry entry;
  entry.name = name;
  std::string type;
  try {
    type = info.at("dtype").get<std::string>();
    const auto shape = naturals(info.at("shape"));
    const auto offsets = naturals(info.at("data_offsets"));
    if (offsets.size() != 2) throw std::invalid_argument("not a pair");
    entry.shape.assign(shape.begin(), shape.end());
    entry.begin = offsets[0];
    entry.end = offsets[1];
  } catch (const std::exception&) {
    refuse_safetensors(path, fmt::format("tensor {} lacks a proper dtype, shape or data_offsets", name));
  }
  const auto known = enum_named<SafetensorsType>(type);
  if (!known) refuse_safetensors(path, fmt::format("tensor {} has the unsupported dtype {}", name, type));
  entry.type = *known;
  if (entry.shape.size() > max_rank) refuse_safetensors(path, fmt::format("tensor {} has too many dimensions", name));
  const auto bytes = byte_count(entry.shape, size_of(entry.type));
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes)
    refuse_safetensors(
        path, fmt::format("the shape of tensor {} does not match its {} to {} bytes", name, entry.begin, entry.end));
  return entry;
}

SafetensorsHeader interpret(const fs::path& path, const json& text, uint64_t data_bytes) {
  SafetensorsHeader header;
  for (const auto& [name, info] : text.items()) {
    if (name != SafetensorsHeader::metadata_key) {
      header.entries.push_back(parse_entry(path, name, info));
      continue;
    }
    if (!info.is_object()) refuse_safetensors(path, "the metadata is not an object");
    for (const auto& [key, value] : info.items()) {
      if (!value.is_string()) refuse_safetensors(path, fmt::format("metadata {} is not a text", key));
      header.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t expected = 0;
  for (const auto& entry : header.entries) {
    if (entry.begin != expected)
      refuse_safetensors(path,
                         fmt::format("tensor {} starts at byte {} instead of {}", entry.name, entry.begin, expected));
    expected = entry.end;
  }
  if (expected != data_bytes)
    refuse_safetensors(path, fmt::format("{} bytes of tensors declared, {} in the file", expected, data_bytes));
  return header;
}

}  // namespace

void refuse_safetensors(const fs::path& path, const std::string& why) {
  throw Error(Fault::checkpoint, path.string(), why);
}

uint64_t size_of(SafetensorsType type) {
  static constexpr std::array<uint64_t, enum_names<SafetensorsType>.size()> sizes{8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
  return sizes.at(static_cast<size_t>(type));
}

SafetensorsHeader read_safetensors_header(std::istream& in, uint64_t size, const fs::path& path) {
  uint64_t length = 0;
  if (!in.read(reinterpret_cast<char*>(&length), sizeof(length))) refuse_safetensors(path, "the file is cut short");
  if (length > SafetensorsHeader::max_bytes)
    refuse_safetensors(path, "not a safetensors file: the header would be too large");
  if (length > size - sizeof(length)) refuse_safetensors(path, "the file is cut short: it ends within the header");
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) refuse_safetensors(path, "the file is cut short");
  return interpret(path, parse_header(path, text), size - sizeof(length) - length);
}

}  // namespace fedgrab
