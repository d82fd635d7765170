/// The wire format of protobuf: a message is a string of fields, each a key (number and wire type) and a payload.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace fedgrab::protobuf {

enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
std::string little_endian(T number) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

inline std::string varint(uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  return out + static_cast<char>(number);
}

inline std::string key(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
inline std::string integer_field(int field, int64_t number) {
  return key(field, Wire::varint) + varint(static_cast<uint64_t>(number));
}
inline std::string double_field(int field, double number) { return key(field, Wire::fixed64) + little_endian(number); }
inline std::string float_field(int field, float number) { return key(field, Wire::fixed32) + little_endian(number); }
/// Also of a text, and of a message inside another.
inline std::string bytes_field(int field, std::string_view bytes) {
  return key(field, Wire::bytes).append(varint(bytes.size())).append(bytes);
}

}  // namespace fedgrab::protobuf
