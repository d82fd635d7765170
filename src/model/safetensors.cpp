#include "fedgrab/model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "safetensors_header.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian and is read in place");

constexpr const char* checksum_key = "fedgrab.crc32";

/// In the order of SafetensorsType.
constexpr std::array<torch::ScalarType, enum_names<SafetensorsType>.size()> torch_types{
    torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
    torch::kInt32,   torch::kInt16,   torch::kInt8,    torch::kUInt8,    torch::kBool};

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

std::string data_type_name(const fs::path& path, const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined()) throw Error(Fault::other, path.string(), fmt::format("tensor {} is undefined", name));
  const auto* known = std::find(torch_types.begin(), torch_types.end(), tensor.scalar_type());
  if (known != torch_types.end()) return name_of(static_cast<SafetensorsType>(known - torch_types.begin()));
  throw Error(
      Fault::other, path.string(),
      fmt::format("tensor {} has type {}, which the format cannot hold", name, c10::toString(tensor.scalar_type())));
}

std::string header_text(const fs::path& path, const TensorFile& file, const std::vector<std::string>& order) {
  json header = json::object();
  if (!file.metadata.empty()) header[SafetensorsHeader::metadata_key] = file.metadata;
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

}  // namespace

void save_safetensors(const fs::path& path, const TensorFile& file) {
  std::vector<std::string> order;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == SafetensorsHeader::metadata_key)
      throw Error(Fault::other, path.string(), fmt::format("{} cannot name a tensor", name));
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
  if (header.size() > SafetensorsHeader::max_bytes)
    throw Error(Fault::other, path.string(), "too many tensors for one file");

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
  if (code) refuse_safetensors(path, "cannot read: " + code.message());
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse_safetensors(path, "cannot read");
  SafetensorsHeader header = read_safetensors_header(in, size, path);

  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    const auto type = torch_types.at(static_cast<size_t>(entry.type));
    const torch::Tensor tensor = torch::empty(entry.shape, type);
    const auto bytes = bytes_of(tensor);
    if (!bytes.empty() && !in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
      refuse_safetensors(path, "the file is cut short");
    // Any other byte in a bool is undefined behaviour for whoever looks at it.
    if (type == torch::kBool && std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b > 1; }))
      refuse_safetensors(path, fmt::format("tensor {} holds something other than true and false", entry.name));
    file.tensors[entry.name] = tensor;
  }
  const auto expected = file.metadata.find(checksum_key);
  if (expected != file.metadata.end() && expected->second != checksum_text(file.tensors))
    refuse_safetensors(path, "its tensors are not those that were written: their checksum differs");
  return file;
}

}  // namespace fedgrab
