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

INSTANTIATE_TEST_SUITE_P(All, Samples,
                         testing::Values("layer_norm", "product", "flash", "ring", "pipeline", "stores", "overlap"),
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

// Shared memory by pattern: word i of lane i · stride; then global memory the same way.
TEST(Samples, TrafficIsCounted) {
  CompileOptions counted;
  counted.counts = true;
  Module module = Module::compile(R"(
KERNEL(shared, 32, 1)(int stride, int wide) {
  SHARED(Vec16, x, 512);
  float *words = reinterpret_cast<float *>(&x[0]);
  if (wide)
    store_16(&x[thread_x() * stride], Vec16{{1, 2, 3, 4}});
  else
    words[thread_x() * stride] = 1.0f;
}
KERNEL(global, 32, 1)(float *data, int stride, int wide) {
  if (wide)
    store_16(data + 4 * thread_x() * stride, load_16(data));
  else
    data[thread_x() * stride + 1] = 1.0f;
}
KERNEL(copies, 32, 1)(const float *data, int half) {
  DYNAMIC_SHARED(arena, 128);
  if (lane_index() < 16 || !half)
    copy_async_16(arena + 16 * thread_x(), data + 8 * thread_x());
  copy_async_commit();
  copy_async_wait<0>();
}
)",
                                  counted);
  Schedule counting;
  counting.countAccesses = true;
  struct Shared {
    int stride, wide;
    std::uint64_t passes, conflicts;
  };
  for (Shared test :
       {Shared{1, 0, 1, 0}, {2, 0, 2, 1}, {32, 0, 32, 31}, {0, 0, 1, 0}, {33, 0, 1, 0}, {1, 1, 4, 0}, {2, 1, 8, 4}}) {
    LaunchResult result = launch(module, "shared", {1}, {32}, 0, counting, test.stride, test.wide);
    ASSERT_TRUE(result.ok()) << result.text();
    EXPECT_EQ(result.traffic.sharedPasses, test.passes) << test.stride << " " << test.wide;
    EXPECT_EQ(result.traffic.sharedConflicts, test.conflicts) << test.stride << " " << test.wide;
    EXPECT_EQ(result.traffic.globalSectors, 0u);
  }
  DeviceBuffer data(8192, "data");
  void *pointer = data.data();
  struct Global {
    int stride, wide;
    std::uint64_t bytes, sectors;
  };
  // Wide ones read the same 16 bytes in all lanes, which makes one sector more.
  std::uint64_t shift = reinterpret_cast<std::uintptr_t>(pointer) % 32 ? 1 : 0;
  for (Global test : {Global{1, 0, 128, 5 - shift}, {8, 0, 128, 32}, {1, 1, 528, 17 + shift}, {2, 1, 528, 33}}) {
    LaunchResult result = launch(module, "global", {1}, {32}, 0, counting, pointer, test.stride, test.wide);
    ASSERT_TRUE(result.ok()) << result.text();
    EXPECT_EQ(result.traffic.globalBytes, test.bytes) << test.stride << " " << test.wide;
    EXPECT_EQ(result.traffic.globalSectors, test.sectors) << test.stride << " " << test.wide;
  }
  LaunchResult result = launch(module, "copies", {1}, {32}, 512, counting, pointer, 1);
  ASSERT_TRUE(result.ok()) << result.text();
  EXPECT_EQ(result.traffic.sharedPasses, 2u);
  EXPECT_EQ(result.traffic.globalSectors, 16u);
  EXPECT_NEAR(result.traffic.sectorUse(), 0.5, 1e-9);
  EXPECT_EQ(launch(module, "copies", {1}, {32}, 512, {}, pointer, 0).traffic.globalSectors, 0u);
  EXPECT_TRUE(
      launch(Module::compile("KERNEL(empty, 32, 1)() {}\n"), "empty", {1}, {32}, 0, counting).has(FindingKind::Launch));
}

// Counting changes no bits, and the samples waste nothing.
TEST(Samples, CountedRunsAreTheSame) {
  CompileOptions counted;
  counted.counts = true;
  Schedule counting;
  counting.countAccesses = true;
  for (const char *name : {"product", "flash"}) {
    const Sample &sample = sampleCalled(name);
    SampleRun plain = sample.run(Module::compile(kernelText(sample.name + ".cu")), {});
    SampleRun run = sample.run(Module::compile(kernelText(sample.name + ".cu"), counted), counting);
    ASSERT_TRUE(run.result.ok()) << run.result.text();
    EXPECT_EQ(run.bytes, plain.bytes);
    EXPECT_EQ(run.result.traffic.sharedConflicts, 0u) << name;
    EXPECT_GT(run.result.traffic.globalSectors, 100u);
  }
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

} // namespace
} // namespace tcc::emulator
