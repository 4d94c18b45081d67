// mixBits: a pure function that turns a number into a random-looking one.
#pragma once
#include <cstdint>

namespace tcc::runtime {

/// SplitMix64's increment: the state of its step number i from state 0 is i times this.
inline constexpr uint64_t splitMixStep = 0x9e3779b97f4a7c15;

/// One step of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that mixes every bit.
constexpr uint64_t mixBits(uint64_t x) {
  x += splitMixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace tcc::runtime
