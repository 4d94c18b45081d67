// Under AddressSanitizer: sound kernels run clean, and an overrun that no page catches is reported at its line.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

namespace tcc::emulator {
namespace {

TEST(Asan, SoundKernelsAreClean) {
  for (const Sample &sample : samples()) {
    SampleRun run = sample.run(Module::compile(kernelText(sample.name + ".cu")), {});
    EXPECT_TRUE(run.result.ok()) << sample.name << ": " << run.result.text();
    EXPECT_LE(run.error, sample.tolerance) << sample.name;
  }
}

void overrun(const std::string &statement, std::size_t dynamicShared) {
  Module module = Module::compile("KERNEL(overrun, 32, 1)(float *data, int n) {\n  DYNAMIC_SHARED(arena, 128);\n"
                                  "  float *shared = reinterpret_cast<float *>(arena);\n  float local[4] = {};\n  " +
                                  statement + "\n}\n");
  DeviceBuffer data(100 * 4, "data");
  std::memset(data.data(), 0, 400);
  launch(module, "overrun", {1}, {32}, dynamicShared, {}, data.data(), 100);
}

TEST(AsanDeathTest, OverrunsAreReportedAtTheirLine) {
  EXPECT_DEATH(overrun("data[n] = 1.0f;", 256), "use-after-poison(.|\n)*kernel.cu:5");
  EXPECT_DEATH(overrun("shared[64] = 1.0f;", 256), "use-after-poison(.|\n)*kernel.cu:5");
  EXPECT_DEATH(overrun("for (int i = 0; i < n - 90; ++i) local[i] = data[i]; data[1] = local[n - 99];", 256),
               "stack-buffer-overflow(.|\n)*kernel.cu:5");
}

} // namespace
} // namespace tcc::emulator
