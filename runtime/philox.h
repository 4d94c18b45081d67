// Philox4x32-10: counter-based random bits (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). The same counter and key give the same bits whatever the tiling, thread or target.
#pragma once
#include <array>
#include <cstdint>

namespace tcc::runtime {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// 32 random bits as a float in [0, 1): the upper 24 bits, so that every value is exact.
constexpr float philoxUniform(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

} // namespace tcc::runtime
