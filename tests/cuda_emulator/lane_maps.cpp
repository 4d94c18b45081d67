#include "tests/cuda_emulator/lane_maps.h"

#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace tcc::emulator {
namespace {

using Rows = std::vector<std::vector<int>>;

Rows readTable(const std::string &folder, const std::string &name, std::size_t expectedRows) {
  std::ifstream in(folder + "/" + name + ".txt");
  Rows rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream numbers(line);
    rows.emplace_back();
    for (int number; numbers >> number;)
      rows.back().push_back(number);
  }
  if (rows.size() != expectedRows)
    throw std::runtime_error("table " + name + " has " + std::to_string(rows.size()) + " rows instead of " +
                             std::to_string(expectedRows));
  return rows;
}

/// Collects differences; after ten it only counts.
class Differences {
public:
  void expect(std::uint32_t got, std::uint32_t wanted, const std::string &what) {
    if (got != wanted && ++count <= 10)
      texts.push_back(what + ": " + std::to_string(got) + " instead of " + std::to_string(wanted));
  }
  std::vector<std::string> finish() {
    if (count > 10)
      texts.push_back("and " + std::to_string(count - 10) + " more differences");
    return std::move(texts);
  }

private:
  int count = 0;
  std::vector<std::string> texts;
};

std::uint32_t halfWord(const std::vector<std::uint32_t> &words, int index) {
  return words[static_cast<std::size_t>(index / 2)] >> 16 * (index % 2) & 0xffffu;
}

void compareLdmatrix(LaneMapMachine &machine, const std::string &tables, Differences &differences) {
  LaneMapLaunch launch;
  launch.file = "lanes.cu";
  launch.kernel = "ldmatrix_lanes";
  launch.outputBytes = 384 * 4;
  std::vector<std::uint32_t> out = machine.run(launch);
  for (int transposed : {0, 1}) {
    std::string name = transposed ? "ldmatrix_trans" : "ldmatrix";
    for (const std::vector<int> &r : readTable(tables, name, 256)) {
      std::uint32_t element = static_cast<std::uint32_t>(r[3] * 64 + r[4] * 8 + r[5]);
      std::string what = name + " lane " + std::to_string(r[0]) + " register " + std::to_string(r[1]);
      differences.expect(halfWord(out, (128 * transposed + r[0] * 4 + r[1]) * 2 + r[2]), element, what);
      if (r[1] < 2)
        differences.expect(halfWord(out, (256 + 64 * transposed + r[0] * 2 + r[1]) * 2 + r[2]), element, what + " x2");
    }
  }
}

void compareMma(LaneMapMachine &machine, const std::string &tables, Differences &differences) {
  std::map<std::pair<int, int>, std::uint32_t> slotD;
  for (const auto &r : readTable(tables, "mma_m16n8k16_d", 128))
    slotD[{r[2], r[3]}] = static_cast<std::uint32_t>(1 + r[0] * 4 + r[1]);
  Rows a = readTable(tables, "mma_m16n8k16_a", 256), b = readTable(tables, "mma_m16n8k16_b", 128);
  for (int half : {0, 1}) {
    LaneMapLaunch launch;
    launch.file = "lanes.cu";
    launch.kernel = "mma_lanes";
    launch.outputBytes = 256 * 128 * 4;
    launch.scalars = {half};
    std::vector<std::uint32_t> out = machine.run(launch);
    for (const auto &ra : a)
      for (const auto &rb : b) {
        int slotA = (ra[0] * 4 + ra[1]) * 2 + ra[2], slotB = (rb[0] * 2 + rb[1]) * 2 + rb[2];
        differences.expect(out[static_cast<std::size_t>(slotA * 128 + slotB)],
                           ra[4] == rb[3] ? slotD.at({ra[3], rb[4]}) : 0,
                           std::string(half ? "mma f16" : "mma bf16") + " slots " + std::to_string(slotA) + " and " +
                               std::to_string(slotB));
      }
  }
}

/// Where the elements of a 64 × 16 operand tile lie, and the descriptor's offsets: written down from the canonical
/// layouts and swizzled by the tables.
struct Layout {
  int swizzle; // bytes, 0: none
  bool transposed;
  int code; // in the descriptor
  int leading, stride;
};

int swizzled(const Rows &pattern, int linear) {
  const std::vector<int> &line = pattern[static_cast<std::size_t>(linear / 128) % pattern.size()];
  return linear / 128 * 128 + line[static_cast<std::size_t>(1 + linear % 128 / 16)] * 16 + linear % 16;
}

Rows swizzlePattern(const std::string &tables, int swizzle) {
  if (!swizzle)
    return {{0, 0, 1, 2, 3, 4, 5, 6, 7}};
  return readTable(tables, "swizzle_" + std::to_string(swizzle), static_cast<std::size_t>(swizzle / 16));
}

std::vector<std::uint16_t> places(const Layout &layout, const std::string &tables) {
  Rows pattern = swizzlePattern(tables, layout.swizzle);
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
      all[static_cast<std::size_t>(row * 16 + k)] =
          static_cast<std::uint16_t>(width ? swizzled(pattern, linear) : linear);
    }
  return all;
}

void compareWgmma(LaneMapMachine &machine, const std::string &tables, Differences &differences) {
  std::map<std::pair<int, int>, std::uint32_t> slotD;
  for (const auto &r : readTable(tables, "wgmma_m64n64_d", 4096))
    slotD[{r[2], r[3]}] = static_cast<std::uint32_t>(1 + r[0] * 32 + r[1]);
  // Offsets as the PTX ISA defines them. K-major: stride to the next 8 rows; unswizzled also leading to the next 8 k.
  // MN-major swizzled: leading to the next swizzle width of MN, stride to the next 8 k; unswizzled: leading to the
  // next 8 k, stride to the next 8 of MN.
  const std::array<Layout, 4> kMajor = {
      {{128, false, 1, 16, 1024}, {64, false, 2, 16, 512}, {32, false, 3, 16, 256}, {0, false, 0, 128, 256}}};
  const std::array<Layout, 4> mnMajor = {
      {{128, true, 1, 2048, 1024}, {64, true, 2, 1024, 512}, {32, true, 3, 512, 256}, {0, true, 0, 1024, 128}}};
  LaneMapLaunch launch;
  launch.file = "wgmma_lanes.cu";
  launch.threads = 128;
  launch.dynamicShared = 32768;
  launch.outputBytes = 4096;
  for (std::size_t i = 0; i < kMajor.size(); ++i)
    for (bool transposed : {false, true}) {
      const Layout &a = kMajor[i], &b = transposed ? mnMajor[i] : kMajor[i];
      launch.kernel = transposed ? "wgmma_lanes_transposed" : "wgmma_lanes";
      launch.inputs = {places(a, tables), places(b, tables)};
      launch.scalars = {a.leading, a.stride, b.leading, b.stride, a.code};
      std::vector<std::uint32_t> out = machine.run(launch);
      for (int hot = 0; hot < 1024; ++hot)
        differences.expect(out[static_cast<std::size_t>(hot)], slotD.at({hot / 16, (hot / 16 + 5 * (hot % 16)) % 64}),
                           "wgmma swizzle " + std::to_string(a.swizzle) + (transposed ? " transposed" : "") + " row " +
                               std::to_string(hot / 16) + " k " + std::to_string(hot % 16));
    }
  launch.kernel = "wgmma_register_lanes";
  launch.inputs = {places(kMajor[0], tables)};
  launch.scalars = {16, 1024, 1};
  std::vector<std::uint32_t> out = machine.run(launch);
  for (const auto &r : readTable(tables, "wgmma_m64k16_a", 1024)) {
    int slot = (r[0] * 4 + r[1]) * 2 + r[2];
    differences.expect(out[static_cast<std::size_t>(slot)], slotD.at({r[3], 0}) * 16 + static_cast<std::uint32_t>(r[4]),
                       "wgmma A registers slot " + std::to_string(slot));
  }
}

// Boxes of elements whose value is their index, with rows before, in and behind the tensor; what lies outside is zero.
void compareBoxes(LaneMapMachine &machine, const std::string &tables, Differences &differences) {
  constexpr int columns = 72, rows = 20, heads = 3, batches = 2, boxRows = 12; // (d, T, H, B)
  LaneMapLaunch launch;
  launch.file = "wgmma_lanes.cu";
  launch.kernel = "box_lanes";
  launch.threads = 128;
  launch.dynamicShared = 4096;
  launch.mapSizes = {columns, rows, heads, batches};
  for (int i = 0; i < columns * rows * heads * batches; ++i)
    launch.mapData.push_back(static_cast<std::uint16_t>(i + 1));
  for (int swizzle : {0, 32, 64, 128}) {
    Rows pattern = swizzlePattern(tables, swizzle);
    int inner = swizzle ? swizzle / 2 : 40, bytes = inner * boxRows * 2;
    launch.mapBox = {static_cast<std::uint32_t>(inner), boxRows, 1, 1};
    launch.mapSwizzle = swizzle;
    launch.outputBytes = static_cast<std::size_t>(bytes);
    for (std::array<int, 4> at : {std::array{0, 0, 0, 0}, {48, 12, 1, 1}, {-8, -5, 2, 0}, {64, 16, 3, 1}}) {
      launch.scalars = {bytes, at[0], at[1], at[2], at[3]};
      std::vector<std::uint32_t> out = machine.run(launch);
      for (int row = 0; row < boxRows; ++row)
        for (int column = 0; column < inner; ++column) {
          int d = at[0] + column, t = at[1] + row, linear = (row * inner + column) * 2;
          bool inside = d >= 0 && d < columns && t >= 0 && t < rows && at[2] < heads && at[3] < batches;
          int expected = inside ? ((at[3] * heads + at[2]) * rows + t) * columns + d + 1 : 0;
          differences.expect(halfWord(out, swizzled(pattern, linear) / 2), static_cast<std::uint32_t>(expected),
                             "TMA swizzle " + std::to_string(swizzle) + " row " + std::to_string(row) + " column " +
                                 std::to_string(column));
        }
    }
  }
}

} // namespace

std::vector<std::string> compareWarpLanes(LaneMapMachine &machine, const std::string &tables) {
  Differences differences;
  compareLdmatrix(machine, tables, differences);
  compareMma(machine, tables, differences);
  return differences.finish();
}

std::vector<std::string> compareHopperLanes(LaneMapMachine &machine, const std::string &tables) {
  Differences differences;
  compareWgmma(machine, tables, differences);
  compareBoxes(machine, tables, differences);
  return differences.finish();
}

} // namespace tcc::emulator
