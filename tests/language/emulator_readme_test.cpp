// The kernel text of codegen/cuda/device/README.md and the block of tests/cuda_emulator/README.md, run as they stand
// there.
#include "tests/cuda_emulator/emulator.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace tcc::emulator {
namespace {

TEST(EmulatorReadme, theBlockRuns) {
  const std::string text = R"(
KERNEL(kernel, 128, 1)(float *out, int n) {
  if (const int i = (block_y() * grid_x() + block_x()) * block_size() + thread_x(); i < n)
    out[i] = 1.0f;
})";
  const unsigned gridX = 3, gridY = 2;
  const int n = 700;
  const size_t bytes = n * sizeof(float), dynamicShared = 0;
#include "emulator_readme.inc"
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(out.as<float>()[i], 1.0f);
}

TEST(DeviceReadme, theKernelRuns) {
  std::ifstream in("codegen/cuda/device/README.md");
  const std::string readme{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = readme.find("\n```\n") + 5, end = readme.find("\n```\n", begin);
  ASSERT_LT(begin, end);
  const Module module = Module::compile(readme.substr(begin, end - begin) + "\n");
  const int n = 200;
  DeviceBuffer values(n * 2, "in"), out(n * sizeof(float), "out");
  for (int i = 0; i < n; ++i)
    values.as<uint16_t>()[i] = 0x4040; // 3
  out.writeOnce(4);
  for (const Schedule &schedule : testSchedules()) {
    const LaunchResult result =
        launch(module, "scale", {2}, {128}, 1024, schedule, values.data(), out.data(), EncodedMap{}, n);
    EXPECT_TRUE(result.ok()) << result.text();
  }
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(out.as<float>()[i], 6.0f);
}

} // namespace
} // namespace tcc::emulator
