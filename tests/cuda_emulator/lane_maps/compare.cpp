// What a machine answers against what the tables say.
#include "tests/cuda_emulator/lane_maps/launches.h"

#include <sstream>
#include <stdexcept>

namespace tcc::emulator {
namespace {

Rows rowsOf(const LaneTables &tables, const std::string &name, std::size_t expectedRows) {
  auto found = tables.find(name);
  if (found == tables.end())
    throw std::runtime_error("no table is called " + name);
  std::istringstream in(found->second);
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

void compareLdmatrix(LaneMapMachine &machine, const LaneTables &tables, Differences &differences) {
  std::vector<std::uint32_t> out = machine.run(ldmatrixLaunch());
  for (int transposed : {0, 1}) {
    std::string name = transposed ? "ldmatrix_trans" : "ldmatrix";
    for (const std::vector<int> &r : rowsOf(tables, name, 256)) {
      std::uint32_t element = static_cast<std::uint32_t>(r[3] * 64 + r[4] * 8 + r[5]);
      std::string what = name + " lane " + std::to_string(r[0]) + " register " + std::to_string(r[1]);
      differences.expect(halfWord(out, (128 * transposed + r[0] * 4 + r[1]) * 2 + r[2]), element, what);
      if (r[1] < 2)
        differences.expect(halfWord(out, (256 + 64 * transposed + r[0] * 2 + r[1]) * 2 + r[2]), element, what + " x2");
    }
  }
}

void compareMma(LaneMapMachine &machine, const LaneTables &tables, Differences &differences) {
  std::map<std::pair<int, int>, std::uint32_t> slotD;
  for (const auto &r : rowsOf(tables, "mma_m16n8k16_d", 128))
    slotD[{r[2], r[3]}] = static_cast<std::uint32_t>(1 + r[0] * 4 + r[1]);
  Rows a = rowsOf(tables, "mma_m16n8k16_a", 256), b = rowsOf(tables, "mma_m16n8k16_b", 128);
  for (bool half : {false, true}) {
    std::vector<std::uint32_t> out = machine.run(mmaLaunch(half));
    for (const auto &ra : a)
      for (const auto &rb : b) {
        int slotA = (ra[0] * 4 + ra[1]) * 2 + ra[2], slotB = (rb[0] * 2 + rb[1]) * 2 + rb[2];
        std::uint32_t got = out[static_cast<std::size_t>(slotA * 128 + slotB)];
        std::uint32_t wanted = ra[4] == rb[3] ? slotD.at({ra[3], rb[4]}) : 0;
        if (got != wanted)
          differences.expect(got, wanted,
                             std::string(half ? "mma f16" : "mma bf16") + " slots " + std::to_string(slotA) + " and " +
                                 std::to_string(slotB));
      }
  }
}

Rows swizzlePattern(const LaneTables &tables, int swizzle) {
  if (!swizzle)
    return {{0, 0, 1, 2, 3, 4, 5, 6, 7}};
  return rowsOf(tables, "swizzle_" + std::to_string(swizzle), static_cast<std::size_t>(swizzle / 16));
}

void compareWgmma(LaneMapMachine &machine, const LaneTables &tables, Differences &differences) {
  std::map<std::pair<int, int>, std::uint32_t> slotD;
  for (const auto &r : rowsOf(tables, "wgmma_m64n64_d", 4096))
    slotD[{r[2], r[3]}] = static_cast<std::uint32_t>(1 + r[0] * 32 + r[1]);
  for (std::size_t i = 0; i < kMajorLayouts.size(); ++i)
    for (bool transposed : {false, true})
      for (int shift : {0, 16, 32, 48}) {
        // Once is enough for what does not depend on the layout.
        if (shift && (i || transposed))
          continue;
        const OperandLayout &a = kMajorLayouts[i], &b = transposed ? mnMajorLayouts[i] : kMajorLayouts[i];
        Rows pattern = swizzlePattern(tables, a.swizzle);
        std::vector<std::uint32_t> out =
            machine.run(wgmmaLaunch(a, b, operandPlaces(a, pattern), operandPlaces(b, pattern), shift));
        for (int hot = 0; hot < 1024; ++hot)
          differences.expect(
              out[static_cast<std::size_t>(hot)], slotD.at({hot / 16, (hot / 16 + 5 * (hot % 16) + shift) % 64}),
              "wgmma swizzle " + std::to_string(a.swizzle) + (transposed ? " transposed" : "") + " row " +
                  std::to_string(hot / 16) + " k " + std::to_string(hot % 16) + " shift " + std::to_string(shift));
      }
  const OperandLayout &b = kMajorLayouts[0];
  std::vector<std::uint32_t> out =
      machine.run(wgmmaRegisterLaunch(b, operandPlaces(b, swizzlePattern(tables, b.swizzle))));
  for (const auto &r : rowsOf(tables, "wgmma_m64k16_a", 1024)) {
    int slot = (r[0] * 4 + r[1]) * 2 + r[2];
    differences.expect(out[static_cast<std::size_t>(slot)], slotD.at({r[3], 0}) * 16 + static_cast<std::uint32_t>(r[4]),
                       "wgmma A registers slot " + std::to_string(slot));
  }
}

// Boxes with rows before, in and after the tensor; what lies outside is zero.
void compareBoxes(LaneMapMachine &machine, const LaneTables &tables, Differences &differences) {
  using Test = BoxTest;
  for (int swizzle : {0, 32, 64, 128}) {
    Rows pattern = swizzlePattern(tables, swizzle);
    int inner = Test::inner(swizzle);
    for (std::array<int, 4> at : {std::array{0, 0, 0, 0}, {48, 12, 1, 1}, {-8, -5, 2, 0}, {64, 16, 3, 1}}) {
      std::vector<std::uint32_t> out = machine.run(boxLaunch(swizzle, at));
      for (int row = 0; row < Test::boxRows; ++row)
        for (int column = 0; column < inner; ++column) {
          int d = at[0] + column, t = at[1] + row, linear = (row * inner + column) * 2;
          bool inside =
              d >= 0 && d < Test::columns && t >= 0 && t < Test::rows && at[2] < Test::heads && at[3] < Test::batches;
          int expected = inside ? ((at[3] * Test::heads + at[2]) * Test::rows + t) * Test::columns + d + 1 : 0;
          differences.expect(halfWord(out, swizzled(pattern, linear) / 2), static_cast<std::uint32_t>(expected),
                             "TMA swizzle " + std::to_string(swizzle) + " row " + std::to_string(row) + " column " +
                                 std::to_string(column));
        }
    }
  }
}

} // namespace

std::vector<std::string> compareWarpLanes(LaneMapMachine &machine, const LaneTables &tables) {
  Differences differences;
  compareLdmatrix(machine, tables, differences);
  compareMma(machine, tables, differences);
  return differences.finish();
}

std::vector<std::string> compareHopperLanes(LaneMapMachine &machine, const LaneTables &tables) {
  Differences differences;
  compareWgmma(machine, tables, differences);
  compareBoxes(machine, tables, differences);
  return differences.finish();
}

} // namespace tcc::emulator
