// The tables that a machine's answers give. Only what can be seen is recorded: rows, columns and k of fragments get
// their names from memory, through ldmatrix or through unswizzled core matrices.
#include "tests/cuda_emulator/lane_maps/launches.h"

#include <sstream>
#include <stdexcept>

namespace tcc::emulator {
namespace {

void require(bool condition, const std::string &text) {
  if (!condition)
    throw std::runtime_error("lane maps cannot be recorded: " + text);
}

std::string table(const std::string &head, const Rows &rows) {
  std::ostringstream out;
  out << "# " << head << "\n";
  for (const std::vector<int> &row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      out << row[i] << (i + 1 < row.size() ? " " : "\n");
  return out.str();
}

/// (matrix, row, column) of each (lane · 4 + register) · 2 + half.
std::vector<std::array<int, 3>> ldmatrixSlots(const std::vector<std::uint32_t> &out, bool transposed) {
  std::vector<std::array<int, 3>> slots;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int half = 0; half < 2; ++half) {
        int element = static_cast<int>(halfWord(out, (128 * transposed + lane * 4 + i) * 2 + half));
        require(element < 256, "ldmatrix gives an element of no matrix");
        if (i < 2)
          require(static_cast<int>(halfWord(out, (256 + 64 * transposed + lane * 2 + i) * 2 + half)) == element,
                  "ldmatrix of two matrices differs from that of four");
        slots.push_back({element / 64, element / 8 % 8, element % 8});
      }
  return slots;
}

/// Accumulator slot → (row, column).
using Accumulator = std::map<int, std::array<int, 2>>;

void meet(Accumulator &accumulator, int slot, int row, int column, const std::string &who) {
  auto [known, fresh] = accumulator.try_emplace(slot, std::array{row, column});
  require(fresh || known->second == std::array{row, column},
          who + " shows two results in accumulator slot " + std::to_string(slot));
}

Rows accumulatorRows(const Accumulator &accumulator, int registers, int slots, const std::string &who) {
  require(static_cast<int>(accumulator.size()) == slots,
          who + " fills " + std::to_string(accumulator.size()) + " of " + std::to_string(slots) + " accumulators");
  Rows rows;
  for (const auto &[slot, place] : accumulator)
    rows.push_back({slot / registers, slot % registers, place[0], place[1]});
  return rows;
}

Accumulator recordWgmmaAccumulator(LaneMapMachine &machine) {
  const OperandLayout &plain = kMajorLayouts[3];
  std::vector<std::uint16_t> places = operandPlaces(plain, {{0, 0, 1, 2, 3, 4, 5, 6, 7}});
  Accumulator accumulator;
  for (int shift : {0, 16, 32, 48}) {
    std::vector<std::uint32_t> out = machine.run(wgmmaLaunch(plain, plain, places, places, shift));
    for (int hot = 0; hot < 1024; ++hot) {
      int slot = static_cast<int>(out[static_cast<std::size_t>(hot)]) - 1;
      require(slot >= 0 && slot < 4096, "a one-hot wgmma shows no result");
      meet(accumulator, slot, hot / 16, (hot / 16 + 5 * (hot % 16) + shift) % 64, "wgmma");
    }
  }
  return accumulator;
}

std::string recordWgmmaA(LaneMapMachine &machine, const Accumulator &accumulator) {
  const OperandLayout &plain = kMajorLayouts[3];
  std::vector<std::uint32_t> out =
      machine.run(wgmmaRegisterLaunch(plain, operandPlaces(plain, {{0, 0, 1, 2, 3, 4, 5, 6, 7}})));
  Rows rows;
  for (int slot = 0; slot < 1024; ++slot) {
    int answer = static_cast<int>(out[static_cast<std::size_t>(slot)]);
    auto place = accumulator.find(answer / 16 - 1);
    require(answer && place != accumulator.end() && place->second[1] == 0,
            "wgmma with A from registers shows no result");
    rows.push_back({slot / 8, slot / 2 % 4, slot % 2, place->second[0], answer % 16});
  }
  return table("thread register half → row k (PTX ISA, wgmma.m64nNk16, A in registers)", rows);
}

std::string recordSwizzle(LaneMapMachine &machine, int swizzle) {
  std::vector<std::uint32_t> out = machine.run(boxLaunch(swizzle, {0, 0, 0, 0}));
  int inner = BoxTest::inner(swizzle), lines = swizzle / 16;
  Rows rows(static_cast<std::size_t>(lines), std::vector<int>(9, -1));
  for (int place = 0; place < inner * BoxTest::boxRows; ++place) {
    int element = static_cast<int>(halfWord(out, place)) - 1;
    int row = element / BoxTest::columns, column = element % BoxTest::columns, linear = (row * inner + column) * 2;
    require(element >= 0 && row < BoxTest::boxRows && column < inner, "a TMA box holds what lies outside of it");
    require(linear / 128 == place * 2 / 128 && linear % 16 == place * 2 % 16,
            "a TMA swizzle of " + std::to_string(swizzle) + " bytes moves more than chunks of a line");
    std::vector<int> &line = rows[static_cast<std::size_t>(linear / 128 % lines)];
    int &chunk = line[static_cast<std::size_t>(1 + linear % 128 / 16)], seen = place * 2 % 128 / 16;
    require(chunk < 0 || chunk == seen, "a TMA swizzle of " + std::to_string(swizzle) + " bytes does not repeat");
    line[0] = linear / 128 % lines;
    chunk = seen;
  }
  return table("line of 128 bytes → chunk of 16 bytes that chunk 0 to 7 goes to; repeats (PTX ISA, swizzling modes)",
               rows);
}

} // namespace

LaneTables recordWarpLanes(LaneMapMachine &machine) {
  LaneTables tables;
  std::vector<std::uint32_t> loaded = machine.run(ldmatrixLaunch());
  std::vector<std::array<int, 3>> plain = ldmatrixSlots(loaded, false);
  for (bool transposed : {false, true}) {
    std::vector<std::array<int, 3>> slots = ldmatrixSlots(loaded, transposed);
    Rows rows;
    for (int slot = 0; slot < 256; ++slot) {
      auto [matrix, row, column] = slots[static_cast<std::size_t>(slot)];
      rows.push_back({slot / 8, slot / 2 % 4, slot % 2, matrix, row, column});
    }
    tables[transposed ? "ldmatrix_trans" : "ldmatrix"] = table(
        std::string("lane register half → matrix row column (PTX ISA, ldmatrix") + (transposed ? " .trans)" : ")"),
        rows);
  }
  // A is what ldmatrix_x4 makes of 16 rows × 16 k, its matrices being rows 0 and 8, then k 8 on; B what ldmatrix_x2
  // makes of 8 columns × 16 k.
  Rows a, b;
  for (int slot = 0; slot < 256; ++slot) {
    auto [matrix, row, column] = plain[static_cast<std::size_t>(slot)];
    a.push_back({slot / 8, slot / 2 % 4, slot % 2, row + 8 * (matrix & 1), column + 8 * (matrix >> 1)});
  }
  for (int slot = 0; slot < 128; ++slot) {
    auto [matrix, row, column] = plain[static_cast<std::size_t>((slot / 4 * 4 + slot / 2 % 2) * 2 + slot % 2)];
    b.push_back({slot / 4, slot / 2 % 2, slot % 2, column + 8 * matrix, row});
  }
  Accumulator accumulator;
  for (bool half : {false, true}) {
    std::vector<std::uint32_t> out = machine.run(mmaLaunch(half));
    for (std::size_t slotA = 0; slotA < a.size(); ++slotA)
      for (std::size_t slotB = 0; slotB < b.size(); ++slotB) {
        int answer = static_cast<int>(out[slotA * 128 + slotB]);
        require((answer != 0) == (a[slotA][4] == b[slotB][3]) && answer <= 128,
                "mma and ldmatrix disagree about k in slots " + std::to_string(slotA) + " and " +
                    std::to_string(slotB));
        if (answer)
          meet(accumulator, answer - 1, a[slotA][3], b[slotB][4], "mma");
      }
  }
  tables["mma_m16n8k16_a"] = table("lane register half → row k (PTX ISA, mma.m16n8k16, 16-bit A)", a);
  tables["mma_m16n8k16_b"] = table("lane register half → k column (PTX ISA, mma.m16n8k16, 16-bit B)", b);
  tables["mma_m16n8k16_d"] = table("lane register → row column (PTX ISA, mma.m16n8k16, accumulator)",
                                   accumulatorRows(accumulator, 4, 128, "mma"));
  return tables;
}

LaneTables recordHopperLanes(LaneMapMachine &machine) {
  LaneTables tables;
  Accumulator accumulator = recordWgmmaAccumulator(machine);
  tables["wgmma_m64n64_d"] = table("thread register → row column (PTX ISA, wgmma.m64nNk16, accumulator, N = 64)",
                                   accumulatorRows(accumulator, 32, 4096, "wgmma"));
  tables["wgmma_m64k16_a"] = recordWgmmaA(machine, accumulator);
  for (int swizzle : {32, 64, 128})
    tables["swizzle_" + std::to_string(swizzle)] = recordSwizzle(machine, swizzle);
  return tables;
}

} // namespace tcc::emulator
