// Random numbers as pure functions of (seed, stream, counter): no state, so the position in the data, the initial
// weights and the samples never depend on what was drawn before or on the number of threads.
#pragma once
#include "runtime/mix_bits.h"

#include <bit>
#include <cstdint>
#include <string_view>

namespace tcc::models {

using runtime::mixBits;

/// 64 random bits for one counter of one stream.
constexpr uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t counter) {
  return mixBits(mixBits(mixBits(seed) ^ stream) + counter);
}

/// A whole number in [0, bound), bound > 0, from 64 random bits (multiply-high: bias below bound / 2^64).
constexpr uint64_t boundedBits(uint64_t bits, uint64_t bound) {
  return uint64_t((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

/// The place of `index` in a random order of 0 … count - 1, which is a bijection for each key: a Feistel network of six
/// rounds, which is applied again if its result is out of the range.
constexpr uint64_t permuted(uint64_t index, uint64_t count, uint64_t key) {
  const int half = (std::bit_width(count - 1) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (randomBits(key, round, right) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

/// A number in [0, 1) with 53 random bits.
constexpr double unitBits(uint64_t bits) {
  return double(bits >> 11) * 0x1p-53;
}

/// A standard normal number from 64 random bits: the inverse of the normal distribution function by Acklam's rational
/// approximation (relative error 1.2e-9), so one counter gives one number.
double normalBits(uint64_t bits);

/// A stream's number from its name (FNV-1a), so that a parameter's values do not depend on its place in a list.
constexpr uint64_t streamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

} // namespace tcc::models
