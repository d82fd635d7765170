#include "zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "fedgrab/core/error.h"
#include "gzip.h"

namespace fedgrab {
namespace {

constexpr size_t end_record = 22, directory_record = 46, local_record = 30, wide_end_record = 56, wide_locator = 20;
constexpr uint32_t end_mark = 0x06054B50, directory_mark = 0x02014B50, local_mark = 0x04034B50,
                   wide_end_mark = 0x06064B50, wide_locator_mark = 0x07064B50;
constexpr uint64_t in_wide_field = UINT32_MAX;  // instead of a number that needs 64 bits

uint64_t number(std::span<const uint8_t> bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8U | bytes[at + i];
  return value;
}
uint16_t u16(std::span<const uint8_t> bytes, size_t at) { return static_cast<uint16_t>(number(bytes, at, 2)); }
uint32_t u32(std::span<const uint8_t> bytes, size_t at) { return static_cast<uint32_t>(number(bytes, at, 4)); }

/// The 64-bit numbers of an entry, in the order of the fields that are too small for them.
class WideFields {
 public:
  explicit WideFields(std::span<const uint8_t> extra) {
    for (size_t at = 0; at + 4 <= extra.size(); at += 4 + u16(extra, at + 2))
      if (u16(extra, at) == 1)
        fields_ = extra.subspan(at + 4, std::min<size_t>(u16(extra, at + 2), extra.size() - at - 4));
  }
  std::optional<uint64_t> resolve(uint64_t narrow) {
    if (narrow != in_wide_field) return narrow;
    if (fields_.size() < 8) return std::nullopt;
    const uint64_t value = number(fields_, 0, 8);
    fields_ = fields_.subspan(8);
    return value;
  }

 private:
  std::span<const uint8_t> fields_;
};

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
  if (!file_) throw Error(Fault::data, path.string(), "cannot read");
  size_ = static_cast<uint64_t>(std::max<std::streamoff>(file_.seekg(0, std::ios::end).tellg(), 0));
  // The directory's place is at the end, before a comment of up to 64 KiB.
  const uint64_t tail_at = size_ - std::min<uint64_t>(size_, end_record + UINT16_MAX);
  const auto tail = bytes(tail_at, size_ - tail_at);
  size_t at = tail.size() < end_record ? 0 : tail.size() - end_record + 1;
  while (at > 0 && u32(tail, at - 1) != end_mark) --at;
  if (at-- == 0) refuse("it is no ZIP archive, or cut short");
  uint64_t count = u16(tail, at + 10), size = u32(tail, at + 12), start = u32(tail, at + 16);
  if (at >= wide_locator && u32(tail, at - wide_locator) == wide_locator_mark) {
    const auto wide = bytes(number(tail, at - wide_locator + 8, 8), wide_end_record);
    if (u32(wide, 0) != wide_end_mark) refuse("its directory is damaged");
    count = number(wide, 32, 8), size = number(wide, 40, 8), start = number(wide, 48, 8);
  }
  read_directory(start, size, count);
}

std::vector<uint8_t> ZipArchive::bytes(uint64_t at, uint64_t count) {
  if (at > size_ || count > size_ - at) refuse("it is cut short");
  std::vector<uint8_t> read(count);
  file_.seekg(static_cast<std::streamoff>(at));
  file_.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(count));
  if (!file_) refuse("it cannot be read to its end");
  return read;
}

void ZipArchive::read_directory(uint64_t start, uint64_t size, uint64_t count) {
  const auto whole = bytes(start, size);
  const std::span directory(whole);
  for (size_t at = 0; entries_.size() < count;) {
    if (at + directory_record > size || u32(directory, at) != directory_mark) refuse("its directory is damaged");
    const size_t name = u16(directory, at + 28), extra = u16(directory, at + 30), comment = u16(directory, at + 32);
    if (at + directory_record + name + extra + comment > size) refuse("its directory is damaged");
    const auto* text = reinterpret_cast<const char*>(whole.data()) + at + directory_record;
    WideFields wide(directory.subspan(at + directory_record + name, extra));
    const auto unpacked = wide.resolve(u32(directory, at + 24)), packed = wide.resolve(u32(directory, at + 20)),
               header = wide.resolve(u32(directory, at + 42));
    if (!unpacked || !packed || !header) refuse("its directory is damaged");
    entries_.push_back({std::string(text, name), u16(directory, at + 8), u16(directory, at + 10),
                        u32(directory, at + 16), *packed, *unpacked, *header});
    at += directory_record + name + extra + comment;
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.name);
  return names;
}

bool ZipArchive::has(std::string_view name) const { return find(name) != nullptr; }

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<uint8_t> ZipArchive::read(std::string_view name) {
  const Entry* entry = find(name);
  if (entry == nullptr) refuse(fmt::format("it holds no {}", name));
  constexpr uint16_t encrypted = 1, stored = 0, deflated = 8;
  if ((entry->flags & encrypted) != 0) refuse(fmt::format("{} is encrypted", name));
  if (entry->method != stored && entry->method != deflated)
    refuse(fmt::format("{} is compressed by method {}, not by deflate", name, entry->method));
  const uint64_t at = content_of(*entry);
  // Before memory is taken for what the archive cannot hold.
  const bool possible =
      entry->method == stored ? entry->size == entry->packed : entry->size / best_deflate_ratio <= entry->packed;
  if (!possible) refuse(fmt::format("{} is damaged", name));
  std::vector<uint8_t> content;
  if (entry->method == stored)
    content = bytes(at, entry->size);
  else
    inflate(*entry, at, content);
  if (crc32_z(0, content.data(), content.size()) != entry->checksum) refuse(fmt::format("{} is damaged", name));
  return content;
}

/// After a record whose name and extra fields may be longer than those of the directory.
uint64_t ZipArchive::content_of(const Entry& entry) {
  const auto record = bytes(entry.header, local_record);
  if (u32(record, 0) != local_mark) refuse(fmt::format("{} is damaged", entry.name));
  const uint64_t at = entry.header + local_record + u16(record, 26) + u16(record, 28);
  if (at > size_ || entry.packed > size_ - at) refuse(fmt::format("{} is cut short", entry.name));
  return at;
}

void ZipArchive::inflate(const Entry& entry, uint64_t at, std::vector<uint8_t>& content) {
  constexpr uint64_t chunk = uint64_t{1} << 20U;
  constexpr int without_header = -MAX_WBITS;
  z_stream stream{};
  if (inflateInit2(&stream, without_header) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  content.resize(entry.size);
  uint64_t written = 0;
  int code = Z_OK;
  for (uint64_t taken = 0; code == Z_OK && taken < entry.packed;) {
    auto packed = bytes(at + taken, std::min(chunk, entry.packed - taken));
    taken += packed.size();
    stream.next_in = packed.data();
    stream.avail_in = static_cast<uInt>(packed.size());
    do {
      const auto room = static_cast<uInt>(std::min(chunk, entry.size - written));
      stream.next_out = content.data() + written;
      stream.avail_out = room;
      code = ::inflate(&stream, Z_NO_FLUSH);
      written += room - stream.avail_out;
      if (code == Z_BUF_ERROR && stream.avail_in == 0) code = Z_OK;  // wants the next bytes
    } while (code == Z_OK && stream.avail_in > 0);
  }
  if (code != Z_STREAM_END || written != entry.size) refuse(fmt::format("{} is damaged", entry.name));
}

void ZipArchive::refuse(const std::string& why) const {
  throw Error(Fault::data, path_.string(), why, "fetch or write the file again");
}

}  // namespace fedgrab
