// The element types of matmuls, to double and back by round to nearest even.
#pragma once

#include "tests/cuda_machine/cublaslt/api.h"

#include <bit>
#include <cmath>

namespace tcc::lt {

inline std::size_t bytesOf(int type) {
  return type == float32 ? 4 : type == float16 || type == bfloat16 ? 2 : 0;
}

/// Rounds to `mantissa` explicit bits, exponents down to `lowest` (below it the spacing stays), ties to even.
inline double roundTo(double value, int mantissa, int lowest) {
  if (value == 0.0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), lowest);
  double spacing = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(value / spacing) * spacing;
}

/// A float with ten bits of mantissa, ties away from zero, as cvt.rna.tf32 rounds.
inline float toTf32(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return std::isfinite(value) ? std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u) : value;
}

inline double fromHalf(std::uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31)
    return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

inline std::uint16_t toHalf(double value) {
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return 0x7fff;
  double size = std::fabs(roundTo(value, 10, -14));
  if (size >= 65536.0)
    return sign | 0x7c00;
  if (size < std::ldexp(1.0, -14))
    return sign | static_cast<std::uint16_t>(std::ldexp(size, 24));
  int exponent = std::ilogb(size);
  return sign |
         static_cast<std::uint16_t>((exponent + 15) << 10 | (static_cast<int>(std::ldexp(size, 10 - exponent)) - 1024));
}

inline std::uint16_t toBf16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value))
    return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline double load(const void *base, int type, std::int64_t index) {
  if (type == float32)
    return static_cast<const float *>(base)[index];
  std::uint16_t bits = static_cast<const std::uint16_t *>(base)[index];
  return type == float16 ? fromHalf(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// `value` is a float already rounded from the accumulator.
inline void store(void *base, int type, std::int64_t index, float value) {
  if (type == float32)
    static_cast<float *>(base)[index] = value;
  else
    static_cast<std::uint16_t *>(base)[index] = type == float16 ? toHalf(value) : toBf16(value);
}

/// As it is after a store and a load.
inline double rounded(double value, int type) {
  std::uint32_t bits = 0;
  store(&bits, type, 0, static_cast<float>(value));
  return load(&bits, type, 0);
}

} // namespace tcc::lt
