#include "fedgrab/model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian and is read in place");

constexpr uint64_t max_header_bytes = 100'000'000;  // the limit of the reference implementation
constexpr size_t max_rank = 64;                     // ATen's own limit
constexpr const char* metadata_key = "__metadata__";
constexpr const char* checksum_key = "fedgrab.crc32";

struct DataType {
  const char* name;
  torch::ScalarType type;
};

constexpr std::array<DataType, 10> data_types{{{"F64", torch::kFloat64},
                                               {"F32", torch::kFloat32},
                                               {"F16", torch::kFloat16},
                                               {"BF16", torch::kBFloat16},
                                               {"I64", torch::kInt64},
                                               {"I32", torch::kInt32},
                                               {"I16", torch::kInt16},
                                               {"I8", torch::kInt8},
                                               {"U8", torch::kUInt8},
                                               {"BOOL", torch::kBool}}};

/// One tensor as the header declares it; offsets count from the end of the header.
struct Entry {
  std::string name;
  torch::ScalarType type{};
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct Header {
  std::vector<Entry> entries;  // by offset
  std::map<std::string, std::string> metadata;
};

std::span<uint8_t> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<uint8_t*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

uint32_t checksum(const TensorMap& tensors) {
  uLong crc = crc32(0, nullptr, 0);
  for (const auto& [name, given] : tensors) {
    const torch::Tensor tensor = given.detach().to(torch::kCPU).contiguous();
    const std::string about =
        fmt::format("{} {} {}\n", name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes().vec(), " "));
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(about.data()), about.size());
    const auto bytes = bytes_of(tensor);
    if (!bytes.empty()) crc = crc32_z(crc, bytes.data(), bytes.size());
  }
  return static_cast<uint32_t>(crc);
}

std::string checksum_text(const TensorMap& tensors) { return fmt::format("{:08x}", checksum(tensors)); }

// ---- writing

std::string data_type_name(const fs::path& path, const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined()) throw Error(Fault::other, path.string(), fmt::format("tensor {} is undefined", name));
  for (const auto& known : data_types)
    if (known.type == tensor.scalar_type()) return known.name;
  throw Error(
      Fault::other, path.string(),
      fmt::format("tensor {} has type {}, which the format cannot hold", name, c10::toString(tensor.scalar_type())));
}

std::string header_text(const fs::path& path, const TensorFile& file, const std::vector<std::string>& order) {
  json header = json::object();
  if (!file.metadata.empty()) header[metadata_key] = file.metadata;
  uint64_t offset = 0;
  for (const auto& name : order) {
    const torch::Tensor& tensor = file.tensors.at(name);
    const uint64_t end = offset + static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
    header[name] = {{"dtype", data_type_name(path, name, tensor)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// ---- reading

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw Error(Fault::checkpoint, path.string(), why);
}

/// As the library parses, but refuses a key given twice, which it would let through, and nesting the format never has.
json parse_header(const fs::path& path, const std::string& text) {
  // The parser takes a NUL for the end of the text and would ignore what follows.
  if (text.empty() || text.front() != '{' || text.find('\0') != std::string::npos)
    refuse(path, "the header is not a JSON object");
  std::array<std::set<std::string>, 3> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (level >= keys.size()) refuse(path, "the header is nested too deeply");
      if (level + 1 < keys.size()) keys[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (level < keys.size() && !keys[level].insert(key).second)
        refuse(path, fmt::format("\"{}\" appears twice in the header", key));
    }
    return true;
  };
  try {
    return json::parse(shallow_json(text, path.string(), Fault::checkpoint), check);
  } catch (const json::exception&) {
    refuse(path, "the header is not valid JSON");
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

Entry parse_entry(const fs::path& path, const std::string& name, const json& info) {
  Entry entry;
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
    refuse(path, fmt::format("tensor {} lacks a proper dtype, shape or data_offsets", name));
  }
  const auto* known = std::find_if(data_types.begin(), data_types.end(), [&](const auto& t) { return type == t.name; });
  if (known == data_types.end()) refuse(path, fmt::format("tensor {} has the unsupported dtype {}", name, type));
  entry.type = known->type;
  if (entry.shape.size() > max_rank) refuse(path, fmt::format("tensor {} has too many dimensions", name));
  const auto bytes = byte_count(entry.shape, c10::elementSize(entry.type));
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes)
    refuse(path, fmt::format("the shape of tensor {} does not match its {} to {} bytes", name, entry.begin, entry.end));
  return entry;
}

Header interpret(const fs::path& path, const json& text, uint64_t data_bytes) {
  Header header;
  for (const auto& [name, info] : text.items()) {
    if (name != metadata_key) {
      header.entries.push_back(parse_entry(path, name, info));
      continue;
    }
    if (!info.is_object()) refuse(path, "the metadata is not an object");
    for (const auto& [key, value] : info.items()) {
      if (!value.is_string()) refuse(path, fmt::format("metadata {} is not a text", key));
      header.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t expected = 0;
  for (const auto& entry : header.entries) {
    if (entry.begin != expected)
      refuse(path, fmt::format("tensor {} starts at byte {} instead of {}", entry.name, entry.begin, expected));
    expected = entry.end;
  }
  if (expected != data_bytes)
    refuse(path, fmt::format("{} bytes of tensors declared, {} in the file", expected, data_bytes));
  return header;
}

}  // namespace

void save_safetensors(const fs::path& path, const TensorFile& file) {
  std::vector<std::string> order;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == metadata_key) throw Error(Fault::other, path.string(), fmt::format("{} cannot name a tensor", name));
    data_type_name(path, name, tensor);
    order.push_back(name);
  }
  // Wide elements first: then every tensor is aligned without padding, which the format does not allow.
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return file.tensors.at(a).element_size() > file.tensors.at(b).element_size();
  });
  std::string header;
  try {
    header = header_text(path, file, order);
  } catch (const json::exception&) {
    throw Error(Fault::other, path.string(), "a name or metadata text is not UTF-8");
  }
  if (header.size() > max_header_bytes) throw Error(Fault::other, path.string(), "too many tensors for one file");

  AtomicFile out(path);
  const uint64_t length = header.size();
  out.write(std::string_view(reinterpret_cast<const char*>(&length), sizeof(length)));
  out.write(header);
  for (const auto& name : order) out.write(bytes_of(file.tensors.at(name).detach().to(torch::kCPU).contiguous()));
  out.commit();
}

void add_checksum(TensorFile& file) { file.metadata[checksum_key] = checksum_text(file.tensors); }

TensorFile load_safetensors(const fs::path& path) {
  std::error_code code;
  const uint64_t size = fs::file_size(path, code);
  if (code) refuse(path, "cannot read: " + code.message());
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, "cannot read");
  const auto read = [&](void* to, uint64_t bytes) {
    if (!in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) refuse(path, "the file is cut short");
  };

  uint64_t length = 0;
  read(&length, sizeof(length));
  if (length > max_header_bytes) refuse(path, "not a safetensors file: the header would be too large");
  if (length > size - sizeof(length)) refuse(path, "the file is cut short: it ends within the header");
  std::string text(length, '\0');
  read(text.data(), length);
  Header header = interpret(path, parse_header(path, text), size - sizeof(length) - length);

  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    const torch::Tensor tensor = torch::empty(entry.shape, entry.type);
    const auto bytes = bytes_of(tensor);
    if (!bytes.empty()) read(bytes.data(), bytes.size());
    // Any other byte in a bool is undefined behaviour for whoever looks at it.
    if (entry.type == torch::kBool && std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b > 1; }))
      refuse(path, fmt::format("tensor {} holds something other than true and false", entry.name));
    file.tensors[entry.name] = tensor;
  }
  const auto expected = file.metadata.find(checksum_key);
  if (expected != file.metadata.end() && expected->second != checksum_text(file.tensors))
    refuse(path, "its tensors are not those that were written: their checksum differs");
  return file;
}

}  // namespace fedgrab
