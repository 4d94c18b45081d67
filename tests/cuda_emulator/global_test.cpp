// Races in global memory: between blocks, which have no order, and between threads of one block, whom barriers order.
#include "tests/cuda_emulator/emulator.h"

#include <gtest/gtest.h>

namespace tcc::emulator {
namespace {

struct Case {
  std::string name;
  /// The body of KERNEL(k, 128, 1)(int *data, int *other, u8 *bytes).
  std::string body;
  unsigned blocks;
  /// A part of the only finding; "" for none.
  std::string finding;
};

void PrintTo(const Case &one, std::ostream *out) {
  *out << one.name;
}

const std::vector<Case> cases = {
    {"OwnElements", "data[i] = 1;\n data[i] += t;\n other[i] = data[i];", 3, ""},
    {"ExchangeBehindABarrier", "data[i] = t;\n block_barrier();\n other[i] = data[i ^ 1];", 3, ""},
    {"ExchangeWithoutBarrier", "data[i] = t;\n other[i] = data[i ^ 64];", 1,
     "of `data`) is written while an earlier read is not ordered before: thread 64, earlier thread 0"},
    {"ExchangeWithinAWarpBehindItsBarrier", "data[i] = t;\n warp_barrier();\n other[i] = data[i ^ 1];", 1, ""},
    {"ExchangeAcrossWarpsBehindAWarpsBarrier", "data[i] = t;\n warp_barrier();\n other[i] = data[i ^ 32];", 1,
     "is not ordered before"},
    {"ReadAfterAnEarlierThreadsWrite", "data[i] = t;\n if (t > 0)\n  other[i] = data[i - 1];", 1,
     "is read while the write is not ordered before: thread 1, earlier thread 0 at kernel.cu:4"},
    {"ShiftInPlace", "int value = data[i + 1];\n data[i] = value;", 1,
     "is written while an earlier read is not ordered before: thread 1, earlier thread 0"},
    {"ShiftInPlaceBehindABarrier", "int value = data[i + 1];\n block_barrier();\n data[i] = value;", 1, ""},
    {"AllWriteOne", "data[0] = 7;", 1,
     "is written while an earlier write is not ordered before: thread 1, earlier thread 0 at kernel.cu:4"},
    {"OneAfterTheOtherBehindBarriers", "if (t == 0)\n  data[0] = 1;\n block_barrier();\n if (t == 9)\n  data[0] = 2;",
     1, ""},
    {"EachItsByte", "bytes[i] = 1;", 3, ""},
    {"EachItsByteFromAnOddOne", "if (i % 3 < 2)\n  bytes[i + 1] = 1;", 3, ""},
    {"TwoOneByte", "bytes[i / 2] = 1;", 1, "of `bytes`) is written while an earlier write is not ordered before"},
    {"BlocksWriteOne", "if (t == 0)\n  data[5] = 1;", 2,
     "byte 20 of `data` is written by block 1 and written by block 0"},
    {"ABlockReadsWhatAnotherWrote", "if (t == 0)\n  data[block_x()] = 1;\n if (t == 0)\n  other[i] = data[0];", 2,
     "byte 0 of `data` is read by block 1 and written by block 0"},
    {"ReadOnlyLoadOfWhatNobodyWrites", "other[i] = static_cast<int>(load_16_streaming(data + 4 * (t / 4)).word[0]);", 3,
     ""},
    {"ReadOnlyLoadOfWhatIsWrittenLater",
     "int value = static_cast<int>(load_16_streaming(data + 4 * i).word[0]);\n block_barrier();\n data[4 * i] = value;",
     1, "is written after a read-only load in one launch"},
    {"ReadOnlyLoadOfWhatWasWritten",
     "data[4 * i] = 3;\n block_barrier();\n other[i] = static_cast<int>(load_16_streaming(data + 4 * i).word[0]);", 1,
     "was written before a read-only load in one launch"},
    {"ABlockWritesWhatAnotherRead",
     "if (block_x() == 0)\n  other[i] = data[7];\n else if (t < 2)\n  other[i] = data[7];\n block_barrier();\n"
     " if (block_x() == 1 && t == 3)\n  data[7] = 1;",
     2, "byte 28 of `data` is written by block 1 and read by block 0"},
};

class GlobalRaces : public testing::TestWithParam<Case> {};

TEST_P(GlobalRaces, AreFoundAndNothingElse) {
  const Case &one = GetParam();
  Module module = Module::compile("KERNEL(k, 128, 1)(int *data, int *other, u8 *bytes) {\n int t = thread_x();\n"
                                  " int i = block_x() * 128 + t;\n " +
                                  one.body + "\n}\n");
  DeviceBuffer data(2048, "data"), other(2048, "other"), bytes(512, "bytes");
  Schedule checked;
  checked.checkAccesses = true;
  // Launches are in order: what one touches is free for the next.
  for (int launches = 0; launches < 2; ++launches) {
    LaunchResult result = launch(module, "k", {one.blocks}, {128}, 0, checked, data.as<int>(), other.as<int>(),
                                 bytes.as<unsigned char>());
    if (one.finding.empty()) {
      EXPECT_TRUE(result.ok()) << result.text();
      continue;
    }
    EXPECT_TRUE(result.has(FindingKind::Race));
    EXPECT_NE(result.text().find(one.finding), std::string::npos) << result.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, GlobalRaces, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace tcc::emulator
