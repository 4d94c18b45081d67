#include "tests/cuda_emulator/lane_maps/launches.h"

namespace tcc::emulator {

std::uint32_t halfWord(const std::vector<std::uint32_t> &words, int index) {
  return words[static_cast<std::size_t>(index / 2)] >> 16 * (index % 2) & 0xffffu;
}

LaneMapLaunch ldmatrixLaunch() {
  LaneMapLaunch launch;
  launch.file = "lanes.cu";
  launch.kernel = "ldmatrix_lanes";
  launch.outputBytes = 384 * 4;
  return launch;
}

LaneMapLaunch mmaLaunch(bool half) {
  LaneMapLaunch launch;
  launch.file = "lanes.cu";
  launch.kernel = "mma_lanes";
  launch.outputBytes = 256 * 128 * 4;
  launch.scalars = {half};
  return launch;
}

// Offsets as the PTX ISA defines them. K-major: stride to the next 8 rows; unswizzled also leading to the next 8 k.
// MN-major swizzled: leading to the next swizzle width of MN, stride to the next 8 k; unswizzled: leading to the
// next 8 k, stride to the next 8 of MN.
const std::array<OperandLayout, 4> kMajorLayouts = {
    {{128, false, 1, 16, 1024}, {64, false, 2, 16, 512}, {32, false, 3, 16, 256}, {0, false, 0, 128, 256}}};
const std::array<OperandLayout, 4> mnMajorLayouts = {
    {{128, true, 1, 2048, 1024}, {64, true, 2, 1024, 512}, {32, true, 3, 512, 256}, {0, true, 0, 1024, 128}}};

int swizzled(const Rows &pattern, int linear) {
  const std::vector<int> &line = pattern[static_cast<std::size_t>(linear / 128) % pattern.size()];
  return linear / 128 * 128 + line[static_cast<std::size_t>(1 + linear % 128 / 16)] * 16 + linear % 16;
}

std::vector<std::uint16_t> operandPlaces(const OperandLayout &layout, const Rows &pattern) {
  std::vector<std::uint16_t> all(64 * 16);
  int width = layout.swizzle;
  for (int row = 0; row < 64; ++row)
    for (int k = 0; k < 16; ++k) {
      int linear;
      if (!layout.transposed && width) // rows of `width` bytes, all 64 below each other
        linear = row * width + k * 2;
      else if (!layout.transposed) // core matrices of 8 rows × 16 bytes: along k first
        linear = row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2;
      else if (width) // rows of `width` bytes along MN, the 16 k below each other, then the next part of MN
        linear = row * 2 / width * (16 * width) + k * width + row * 2 % width;
      else // core matrices of 8 k × 16 bytes of MN: along MN first
        linear = k / 8 * 1024 + row / 8 * 128 + k % 8 * 16 + row % 8 * 2;
      all[static_cast<std::size_t>(row * 16 + k)] = static_cast<std::uint16_t>(swizzled(pattern, linear));
    }
  return all;
}

LaneMapLaunch wgmmaLaunch(const OperandLayout &a, const OperandLayout &b, std::vector<std::uint16_t> placesA,
                          std::vector<std::uint16_t> placesB, int shift) {
  LaneMapLaunch launch;
  launch.file = "wgmma_lanes.cu";
  launch.kernel = b.transposed ? "wgmma_lanes_transposed" : "wgmma_lanes";
  launch.threads = 128;
  launch.dynamicShared = 32768;
  launch.inputs = {std::move(placesA), std::move(placesB)};
  launch.outputBytes = 4096;
  launch.scalars = {a.leading, a.stride, b.leading, b.stride, a.code, shift};
  return launch;
}

LaneMapLaunch wgmmaRegisterLaunch(const OperandLayout &b, std::vector<std::uint16_t> placesB) {
  LaneMapLaunch launch;
  launch.file = "wgmma_lanes.cu";
  launch.kernel = "wgmma_register_lanes";
  launch.threads = 128;
  launch.dynamicShared = 32768;
  launch.inputs = {std::move(placesB)};
  launch.outputBytes = 4096;
  launch.scalars = {b.leading, b.stride, b.code};
  return launch;
}

LaneMapLaunch boxLaunch(int swizzle, const std::array<int, 4> &at) {
  LaneMapLaunch launch;
  launch.file = "wgmma_lanes.cu";
  launch.kernel = "box_lanes";
  launch.threads = 128;
  launch.dynamicShared = 4096;
  launch.mapSizes = {BoxTest::columns, BoxTest::rows, BoxTest::heads, BoxTest::batches};
  for (int i = 0; i < BoxTest::columns * BoxTest::rows * BoxTest::heads * BoxTest::batches; ++i)
    launch.mapData.push_back(static_cast<std::uint16_t>(i + 1));
  int bytes = BoxTest::inner(swizzle) * BoxTest::boxRows * 2;
  launch.mapBox = {static_cast<std::uint32_t>(BoxTest::inner(swizzle)), BoxTest::boxRows, 1, 1};
  launch.mapSwizzle = swizzle;
  launch.outputBytes = static_cast<std::size_t>(bytes);
  launch.scalars = {bytes, at[0], at[1], at[2], at[3]};
  return launch;
}

} // namespace tcc::emulator
