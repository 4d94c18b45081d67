// Operands for bounds of errors.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tcc::test {

/// Floats of all exponents and both signs, evenly among their bit patterns, and around each power of two.
inline std::vector<double> floatsOfAllSizes() {
  std::vector<double> values;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 70001) // a prime
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int power = -149; power < 128; ++power)
    for (int away = -2; away <= 2; ++away) {
      auto bits = std::bit_cast<uint32_t>(std::ldexp(1.0f, power)) + static_cast<uint32_t>(away);
      values.push_back(std::bit_cast<float>(bits));
      values.push_back(-std::bit_cast<float>(bits));
    }
  // The float nearest to a multiple of pi/2 for its size, and others where a reduction of few digits is seen.
  for (double value : {16367173.0 * std::ldexp(1, 72), 13681949.0 * std::ldexp(1, 79), 1e18, 1e25, 8388608.5,
                       16777216.0, 1e22, 3.4028234663852886e38, 710.0, 11.0, 22.0, 355.0, 103993.0, 5419351.0})
    values.push_back(static_cast<float>(value));
  return values;
}

} // namespace tcc::test
