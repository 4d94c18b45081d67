// The launches that comparing and recording share, and where the operands of wgmma lie.
#pragma once

#include "tests/cuda_emulator/lane_maps/lane_maps.h"

#include <array>

namespace tcc::emulator {

using Rows = std::vector<std::vector<int>>;

/// A 16-bit half of the output.
std::uint32_t halfWord(const std::vector<std::uint32_t> &words, int index);

LaneMapLaunch ldmatrixLaunch();
LaneMapLaunch mmaLaunch(bool half);

/// How a 64 × 16 operand tile lies in shared memory, and the descriptor's offsets: written down from the canonical
/// layouts.
struct OperandLayout {
  int swizzle; // bytes, 0: none
  bool transposed;
  int code; // in the descriptor
  int leading, stride;
};
/// By swizzle of 128, 64, 32, 0 bytes.
extern const std::array<OperandLayout, 4> kMajorLayouts, mnMajorLayouts;

/// `pattern`: lines of a swizzle table; {{0, 0, 1, …, 7}} where nothing moves.
int swizzled(const Rows &pattern, int linear);
/// Byte offsets of the elements (row, k), row · 16 + k.
std::vector<std::uint16_t> operandPlaces(const OperandLayout &layout, const Rows &pattern);

LaneMapLaunch wgmmaLaunch(const OperandLayout &a, const OperandLayout &b, std::vector<std::uint16_t> placesA,
                          std::vector<std::uint16_t> placesB, int shift);
LaneMapLaunch wgmmaRegisterLaunch(const OperandLayout &b, std::vector<std::uint16_t> placesB);

/// Boxes of elements whose value is their index and 1 more, in a tensor (d, T, H, B).
struct BoxTest {
  static constexpr int columns = 72, rows = 20, heads = 3, batches = 2, boxRows = 12;
  static int inner(int swizzle) { return swizzle ? swizzle / 2 : 40; }
};
LaneMapLaunch boxLaunch(int swizzle, const std::array<int, 4> &at);

} // namespace tcc::emulator
