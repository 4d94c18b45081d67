// Protocol buffers' wire format, as much as the files of TensorBoard and Weights & Biases need, and their checksums.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tcc::models::wire {

/// How a field's value is stored: a varint, 8 bytes, a length and bytes, or 4 bytes.
enum Kind { Varint = 0, Bytes8 = 1, Length = 2, Bytes4 = 5 };

inline void addVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
}

/// A key, which comes before each value.
inline void addKey(std::string &out, uint64_t field, Kind kind) {
  addVarint(out, field << 3 | kind);
}

/// The bytes of a number.
template <typename T>
void addRaw(std::string &out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T)); // little-endian, as the whole project assumes
  out.append(bytes, sizeof(T));
}

/// A field that holds a text, or a message's bytes.
inline void addText(std::string &out, uint64_t field, std::string_view text) {
  addKey(out, field, Length);
  addVarint(out, text.size());
  out += text;
}

inline void addNumber(std::string &out, uint64_t field, uint64_t value) {
  addKey(out, field, Varint);
  addVarint(out, value);
}

/// A CRC of 32 bits whose polynomial is `Reversed`, its bits in reversed order.
template <uint32_t Reversed>
uint32_t crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = value >> 1 ^ (value & 1 ? Reversed : 0);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ uint8_t(byte)) & 0xff];
  return ~crc;
}
inline constexpr uint32_t castagnoli = 0x82f63b78, ieee = 0xedb88320;

/// Reads the fields of a message, one after another. It ends at the first damaged field.
class Reader {
public:
  explicit Reader(std::string_view bytes) : rest(bytes) {}

  /// Goes to the next field; false at the end.
  bool next() {
    uint64_t key = 0;
    if (rest.empty() || !varint(key))
      return false;
    field = key >> 3;
    number = 0;
    text = {};
    switch (key & 7) {
    case Varint:
      return varint(number);
    case Bytes8:
      return take(8);
    case Bytes4:
      return take(4);
    case Length:
      return varint(number) && take(number);
    default:
      return false;
    }
  }

  uint64_t field = 0, number = 0; ///< the field's number, and its value where it is a varint
  std::string_view text;          ///< its bytes otherwise

private:
  bool varint(uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      const uint64_t byte = uint8_t(rest.front());
      rest.remove_prefix(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80)
        return true;
    }
    return false;
  }
  bool take(uint64_t size) {
    if (size > rest.size())
      return false;
    text = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
  }

  std::string_view rest;
};

} // namespace tcc::models::wire
