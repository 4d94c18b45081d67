// What cubin.h reads of a kernel is what the assembler says of it in its log.
#include "codegen/cuda/cubin.h"
#include "codegen/cuda/device/device_text.h"
#include "codegen/cuda/stated_limits.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_runtime/opened_nvrtc.h"

#include <gtest/gtest.h>
#include <random>

namespace tcc::cuda {
namespace {

/// Three kernels: one needs few registers, one has shared memory, and one must spill registers to memory, since two of
/// its blocks of 1024 threads are to run at once.
std::string sample() {
  std::string text =
      deviceText(Prelude::Portable) +
      "KERNEL(plain, 256, 1)(const float *in, float *out) { out[thread_x()] = in[thread_x()]; }\n"
      "KERNEL(shared, 256, 2)(const float *in, float *out) {\n  SHARED(float, kept, 4096);\n"
      "  kept[thread_x()] = in[thread_x()];\n  block_barrier();\n"
      "  out[thread_x()] = kept[255 - thread_x()];\n}\n"
      "KERNEL(wide, 1024, 2)(const float *in, float *out) {\n  float x[64];\n"
      "#pragma unroll\n  for (int i = 0; i < 64; ++i) x[i] = in[i * 256 + thread_x()];\n"
      "#pragma unroll\n  for (int round = 0; round < 4; ++round)\n"
      "#pragma unroll\n    for (int i = 0; i < 64; ++i) x[i] = x[i] * x[63 - i] + x[(i * 7 + round) % 64];\n"
      "#pragma unroll\n  for (int i = 0; i < 64; ++i) out[i * 256 + thread_x()] = x[i];\n}\n";
  return text;
}

TEST(Cubin, SaysWhatTheAssemblerSays) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  int spilled = 0;
  for (const std::string &architecture : test::checkedArchitectures) {
    if (!nvrtc->supports(architecture))
      continue;
    const runtime::cuda::CompileResult result =
        nvrtc->compile({"sample.cu", sample(), architecture, {}, /*refuseFindings=*/false});
    const auto uses = usesInCubin({result.cubin.data(), result.cubin.size()});
    ASSERT_TRUE(uses) << uses.error().message();
    ASSERT_EQ(uses->size(), 3u) << architecture;
    for (const KernelUse &use : *uses) {
      const runtime::cuda::KernelFigures *said = result.report.find(use.symbol);
      ASSERT_TRUE(said) << use.symbol;
      EXPECT_EQ(use.registers, said->registers) << use.symbol << " for " << architecture;
      EXPECT_EQ(use.sharedBytes, said->sharedBytes) << use.symbol << " for " << architecture;
      EXPECT_EQ(use.stackBytes, said->stackFrame) << use.symbol << " for " << architecture;
      spilled += said->stackFrame > 0;
    }
  }
  EXPECT_GT(spilled, 0) << "the sample was to spill";
}

TEST(Cubin, OtherBytesAreRefused) {
  for (const std::string &bytes : {std::string(), std::string("no cubin"),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string(4096, '\0')}) {
    const auto uses = usesInCubin(bytes);
    ASSERT_FALSE(uses);
    EXPECT_NE(uses.error().message().find("the machine code does not say what it takes: "), std::string::npos);
  }
}

// Damaged files give figures or an error, and nothing is read outside of them.
TEST(Cubin, DamagedBytesAreNotBelieved) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  const runtime::cuda::CompileResult result = nvrtc->compile({"sample.cu", sample(), "sm_90a", {}, false});
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<char> bytes = result.cubin;
    if (round % 2 == 0)
      bytes.resize(random() % bytes.size());
    for (int i = 0; i < 8 && !bytes.empty(); ++i)
      bytes[random() % std::min<size_t>(bytes.size(), round % 3 ? bytes.size() : 64)] = static_cast<char>(random());
    // An array of exactly this size, so that an address sanitizer sees what is read after its end.
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const auto uses = usesInCubin({exact.get(), bytes.size()});
    refused += !uses;
    for (const KernelUse &use : uses ? *uses : std::vector<KernelUse>()) {
      EXPECT_LE(use.registers, 255);
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(StatedLimits, AreThoseOfTheArchitecture) {
  for (const std::string &architecture : test::checkedArchitectures) {
    const StatedLimits stated = statedLimitsOf(architecture);
    EXPECT_FALSE(stated.machine.empty()) << architecture;
    EXPECT_GT(stated.limits.bf16ProductFlops, stated.limits.productFlops);
    EXPECT_GT(stated.limits.bytesPerSecond, 5e11);
  }
  EXPECT_EQ(statedLimitsOf("compute_90").machine, statedLimitsOf("sm_90a").machine);
  EXPECT_EQ(statedLimitsOf("sm_75").machine, "");
}

} // namespace
} // namespace tcc::cuda
