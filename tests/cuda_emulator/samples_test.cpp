// Sound kernels are found sound: no finding, equal bits and the reference's values under every schedule.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

namespace tcc::emulator {
namespace {

class Samples : public testing::TestWithParam<std::string> {};

TEST_P(Samples, AreSoundUnderEverySchedule) {
  const Sample &sample = sampleCalled(GetParam());
  Module module = Module::compile(kernelText(sample.name + ".cu"));
  std::vector<char> first;
  std::vector<Schedule> schedules = testSchedules();
  schedules.push_back({Order::Reverse, Async::Early, 6, true, 0});
  schedules.push_back({Order::Random, Async::Random, 7, true, 0});
  for (const Schedule &schedule : schedules) {
    SampleRun run = sample.run(module, schedule);
    EXPECT_TRUE(run.result.ok()) << run.result.text();
    EXPECT_LE(run.error, sample.tolerance);
    if (first.empty())
      first = run.bytes;
    EXPECT_EQ(run.bytes, first) << "bits differ under order " << static_cast<int>(schedule.order);
  }
}

// The bits depend on neither the optimisation nor the access hooks.
TEST_P(Samples, HaveTheSameBitsWithoutHooks) {
  const Sample &sample = sampleCalled(GetParam());
  CompileOptions plain;
  plain.checks = false;
  SampleRun hooked = sample.run(Module::compile(kernelText(sample.name + ".cu")), {});
  SampleRun bare = sample.run(Module::compile(kernelText(sample.name + ".cu"), plain), {});
  EXPECT_TRUE(bare.result.ok()) << bare.result.text();
  EXPECT_EQ(hooked.bytes, bare.bytes);
}

INSTANTIATE_TEST_SUITE_P(All, Samples, testing::Values("layer_norm", "product", "flash", "ring", "pipeline", "overlap"),
                         [](const auto &info) { return info.param; });

TEST(Samples, BankConflictsAreCounted) {
  std::string text = kernelText("flash.cu");
  SampleRun swizzled = sampleCalled("flash").run(Module::compile(text), {});
  EXPECT_EQ(swizzled.result.bankConflicts, 0u);
  std::string from = "(chunk ^ (row & 7))";
  text.replace(text.find(from), from.size(), "chunk");
  SampleRun plain = sampleCalled("flash").run(Module::compile(text), {});
  EXPECT_GT(plain.result.bankConflicts, 1000u);
  EXPECT_EQ(plain.bytes, swizzled.bytes);
}

TEST(Samples, NoiseMovesResultsWithinTolerance) {
  Module module = Module::compile(kernelText("flash.cu"));
  Schedule noisy;
  noisy.approximationNoise = 2;
  SampleRun exact = runFlash(module, {}, 150, 1), moved = runFlash(module, noisy, 150, 1);
  EXPECT_TRUE(moved.result.ok()) << moved.result.text();
  EXPECT_NE(exact.bytes, moved.bytes);
  EXPECT_LE(moved.error, 2e-2);
  noisy.order = Order::Reverse;
  EXPECT_EQ(runFlash(module, noisy, 150, 1).bytes, moved.bytes);
}

// B·H = 4, T = 256, d = 64 takes at most 0.1 s of processor time a schedule (the checked one aside).
TEST(Samples, FlashIsFastEnough) {
  Module module = Module::compile(kernelText("flash.cu"));
  double fastest = 1e9;
  for (int i = 0; i < 3; ++i)
    fastest = std::min(fastest, runFlash(module, {}, 256, 4).result.seconds);
  RecordProperty("milliseconds", std::to_string(fastest * 1e3));
  EXPECT_LE(fastest, 0.1);
}

} // namespace
} // namespace tcc::emulator
