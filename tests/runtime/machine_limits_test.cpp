#include "runtime/files.h"
#include "runtime/machine_limits.h"
#include "runtime/threads.h"
#include "tests/files.h"
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

namespace tcc::runtime {
namespace {

namespace fs = std::filesystem;

/// A cache folder of the test's own.
class MachineLimitsTest : public testing::Test {
protected:
  MachineLimitsTest() { ::setenv("XDG_CACHE_HOME", folder.path("").c_str(), 1); }

  test::TemporaryFolder folder;
};

TEST_F(MachineLimitsTest, boundIsTheLongerOfArithmeticAndTraffic) {
  const MachineLimits limits{2, 100e9, 200e9, 10e9};
  Instruction instruction;
  instruction.flops = 1000;
  instruction.bytes = 1000;
  Bound bound = limits.boundOf(instruction); // a kernel: 10 ns of arithmetic, 100 ns of memory
  EXPECT_EQ(bound.by, Bound::By::memory);
  EXPECT_DOUBLE_EQ(bound.seconds, 1e-7);
  instruction.flops = 1000000;
  MatmulCall call;
  instruction.call = call;
  bound = limits.boundOf(instruction);
  EXPECT_STREQ(bound.name(), "arithmetic");
  EXPECT_DOUBLE_EQ(bound.seconds, 1e-5);
  call.desc.a.dtype = DType::bf16;
  instruction.call = call;
  EXPECT_DOUBLE_EQ(limits.boundOf(instruction).seconds, 5e-6);
  Instruction attention;
  attention.flops = 1000000;
  attention.arithmetic = DType::bf16;
  EXPECT_DOUBLE_EQ(limits.boundOf(attention).seconds, 5e-6);
  EXPECT_EQ(MachineLimits().boundOf(instruction).by, Bound::By::nothing);
}

TEST_F(MachineLimitsTest, gainIsATenthAtLeast) {
  EXPECT_TRUE((MachineLimits{1, 100e9, 111e9, 1e9}.gainsFromBf16()));
  EXPECT_FALSE((MachineLimits{1, 100e9, 109e9, 1e9}.gainsFromBf16()));
  EXPECT_FALSE((MachineLimits{1, 100e9, 0, 1e9}.gainsFromBf16()));
}

/// A type that is multiplied has a rate, and one that is not has a reason.
TEST_F(MachineLimitsTest, everyTypeIsMeasuredByWhatMultipliesIt) {
  const MachineLimits limits = measureMachineLimits(1, 0.01);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto by = productImplementation(dtype, 1);
    EXPECT_EQ(static_cast<bool>(by), limits.product(dtype) > 0) << name(dtype);
    EXPECT_NE(by ? *by : by.error().message(), "");
  }
}

TEST_F(MachineLimitsTest, calibrationIsSureOfWhatItFindsTwiceOnAQuietMachine) {
  const auto round = [](double f32, double bf16, double memory, double waited) {
    return LimitsRound{{2, f32, bf16, memory}, waited};
  };
  const LimitsRound quiet = round(100, 200, 50, 0), slower = round(98, 198, 49, 0.01), busy = round(100, 200, 50, 0.2);
  EXPECT_FALSE(judgeRounds({quiet}).isSure);
  EXPECT_TRUE(judgeRounds({quiet, slower}).isSure);
  EXPECT_EQ(judgeRounds({slower, quiet}).limits, quiet.limits) << "the best counts";
  EXPECT_FALSE(judgeRounds({quiet, busy, busy, busy}).isSure) << "a steady neighbour gives steady figures";
  EXPECT_FALSE(judgeRounds({quiet, round(100, 200, 40, 0)}).isSure) << "each figure has to be found twice";
  EXPECT_TRUE(judgeRounds({quiet, round(100, 200, 40, 0), round(50, 100, 49, 0)}).isSure) << "... in whatever rounds";
  const Calibration mixed = judgeRounds({round(100, 20, 5, 0.5), round(10, 200, 5, 0.3), round(10, 20, 50, 0.4)});
  EXPECT_EQ(mixed.limits, quiet.limits);
  EXPECT_EQ(mixed.waited, 0.3);
  EXPECT_FALSE(mixed.isSure);
}

/// Threads that want the CPUs as much as the measurement does are seen, and what was known is not made worse.
TEST_F(MachineLimitsTest, calibrationOnABusyMachineSaysSo) {
  const Calibration first = calibrateMachineLimits(5, 0.03, 2);
  EXPECT_EQ(first.path, folder / "tcc/limits/5-threads.json");
  EXPECT_EQ(machineLimits(5), first.limits);
  std::atomic<bool> ends = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 4 * availableThreads(); ++i)
    others.emplace_back([&] {
      while (!ends)
        continue;
    });
  const Calibration second = calibrateMachineLimits(5, 0.03, 2);
  ends = true;
  for (std::thread &other : others)
    other.join();
  EXPECT_FALSE(second.isSure);
  EXPECT_GT(second.waited, 0.1);
  EXPECT_GE(second.limits.productFlops, first.limits.productFlops);
  EXPECT_GE(second.limits.bytesPerSecond, first.limits.bytesPerSecond);
}

TEST_F(MachineLimitsTest, areMeasuredOnceAndRememberedForThisProcessor) {
  // Thread counts of their own: what a process knows, it does not look up again.
  const MachineLimits first = machineLimits(1);
  EXPECT_GT(first.productFlops, 0);
  EXPECT_GT(first.bytesPerSecond, 0);
  const fs::path file = folder / "tcc/limits/1-threads.json";
  const auto text = readFile(file.string());
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(machineLimits(1), first);
  const MachineLimits better = improvedMachineLimits(1, DType::f32, 0.01);
  EXPECT_GE(better.productFlops, first.productFlops);

  // What another process wrote for three threads counts here; what is broken or of another processor does not.
  auto with = [&](const std::string &from, const std::string &to) {
    std::string changed = *text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << changed;
    return changed.replace(at, from.size(), to);
  };
  const auto path = [&](int threads) { return folder / ("tcc/limits/" + std::to_string(threads) + "-threads.json"); };
  ASSERT_FALSE(writeFileAtomically(path(3), *text));
  EXPECT_EQ(machineLimits(3).bytesPerSecond, first.bytesPerSecond);
  ASSERT_FALSE(writeFileAtomically(path(2), with("\"processor\":\"", "\"processor\":\"no such ")));
  EXPECT_NE(machineLimits(2).bytesPerSecond, first.bytesPerSecond);
  ASSERT_FALSE(writeFileAtomically(path(4), with("{", "[")));
  EXPECT_GT(machineLimits(4).productFlops, 0);
}

} // namespace
} // namespace tcc::runtime
