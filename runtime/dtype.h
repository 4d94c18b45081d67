// Element types of tensors: one table of names and sizes, and the conversions of the 16-bit floats.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tcc::runtime {

enum class DType : uint8_t { f32, bf16, f16, f8e4m3, f8e5m2, i1, i32, i64 };

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t bytes; ///< of one stored element; an i1 takes one byte, which is 0 or 1
  bool isFloat;
};

inline constexpr std::array<DTypeInfo, 8> dtypeTable{{
    {DType::f32, "f32", 4, true},
    {DType::bf16, "bf16", 2, true},
    {DType::f16, "f16", 2, true},
    {DType::f8e4m3, "f8e4m3", 1, true},
    {DType::f8e5m2, "f8e5m2", 1, true},
    {DType::i1, "i1", 1, false},
    {DType::i32, "i32", 4, false},
    {DType::i64, "i64", 8, false},
}};

constexpr const DTypeInfo &info(DType dtype) {
  return dtypeTable[static_cast<uint8_t>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  return info(dtype).name;
}
constexpr int64_t byteSize(DType dtype) {
  return info(dtype).bytes;
}
constexpr bool isFloat(DType dtype) {
  return info(dtype).isFloat;
}

/// The dtype of that name, or nothing.
constexpr std::optional<DType> parseDType(std::string_view text) {
  for (const DTypeInfo &row : dtypeTable)
    if (row.name == text)
      return row.dtype;
  return std::nullopt;
}

constexpr float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

constexpr float f16ToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) // infinities and NaNs
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) { // zeros and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// Rounds to nearest, ties to even; overflow gives infinity, a NaN stays a (quiet) NaN.
constexpr uint16_t floatToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 aligns the 2^-24 grid with the mantissa and rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

} // namespace tcc::runtime
