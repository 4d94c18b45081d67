// The check of resources itself: figures by hand, each at a limit and beyond it, and kernels that NVRTC compiles.
#include "codegen/cuda/device/device_text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_runtime/opened_nvrtc.h"

#include <gtest/gtest.h>

namespace tcc::test {
namespace {

std::string ptxOf(int threads, int blocks) {
  return ".version 8.7\n.target sm_90a\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid " +
         std::to_string(threads) + ", 1, 1\n.minnctapersm " + std::to_string(blocks) + "\n{\n\tret;\n}\n";
}

runtime::cuda::PtxasReport reportOf(int registers, int shared) {
  return {{{.name = "k", .registers = registers, .sharedBytes = shared}}, {}};
}

TEST(Resources, LaunchBoundsAreRead) {
  const std::map<std::string, LaunchBounds> bounds =
      launchBounds(ptxOf(256, 2) + ".visible .entry second()\n.reqntid 8, 16, 2\n{\n}\n.entry third()\n{\n}\n");
  ASSERT_EQ(bounds.size(), 3u);
  EXPECT_EQ(bounds.at("k").threads, 256);
  EXPECT_EQ(bounds.at("k").blocks, 2);
  EXPECT_EQ(bounds.at("second").threads, 256);
  EXPECT_EQ(bounds.at("second").blocks, 1);
  EXPECT_EQ(bounds.at("third").threads, 0);
}

TEST(Resources, EachLimitIsHeld) {
  struct Case {
    int registers, threads, blocks, shared;
    LaunchUse launch;
    const char *architecture, *finding; // null: none
  };
  for (const Case &each : {Case{128, 512, 1, 48 << 10, {"k", 512, 51 << 10}, "sm_80", nullptr},
                           {128, 256, 2, 0, {"k", 32, 227 << 10}, "sm_90a", nullptr},
                           {129, 512, 1, 0, {}, "sm_90a", "69632 registers of 1 blocks of 512 threads with 129 each"},
                           {121, 513, 1, 0, {}, "sm_90a", "69632 registers of 1 blocks of 513 threads"},
                           {128, 256, 3, 0, {}, "sm_90a", "98304 registers of 3 blocks"},
                           {16, 1025, 1, 0, {}, "sm_90a", "1025 threads a block, 1024 at most"},
                           {16, 256, 1, (48 << 10) + 4, {}, "sm_90a", "bytes of static shared memory, 49152 at most"},
                           {16, 256, 1, 0, {"k", 288, 0}, "sm_90a", "288 threads in a launch, 256 at most"},
                           {16, 256, 1, 4, {"k", 256, 99 << 10}, "sm_89", "101380 bytes of shared memory, 101376"},
                           {16, 256, 1, 4, {"k", 256, 99 << 10}, "sm_120a", "101380 bytes of shared memory, 101376"},
                           {16, 256, 1, 4, {"k", 256, 227 << 10}, "sm_100a", "232452 bytes of shared memory, 232448"},
                           {16, 0, 1, 0, {}, "sm_90a", "without launch bounds"}}) {
    const std::string ptx = each.threads ? ptxOf(each.threads, each.blocks) : ".entry k()\n{\n}\n";
    const std::vector<std::string> findings =
        resourceFindings(reportOf(each.registers, each.shared), ptx, each.architecture, std::span(&each.launch, 1));
    ASSERT_EQ(findings.size(), each.finding ? 1u : 0u) << (findings.empty() ? each.finding : findings[0]);
    if (each.finding) {
      EXPECT_NE(findings[0].find(each.finding), std::string::npos) << findings[0];
    }
  }
  EXPECT_THROW(limitsOf("sm_75"), std::invalid_argument);
}

TEST(Resources, SpillsAreFound) {
  runtime::cuda::PtxasReport report = reportOf(255, 0);
  EXPECT_EQ(unlistedSpills(report, "sm_90a"), std::vector<std::string>());
  report.kernels[0].spillLoads = 4;
  EXPECT_EQ(unlistedSpills(report, "sm_90a"),
            std::vector<std::string>{"k for sm_90a: 4 bytes of spills, 0 are listed"});
  report.kernels[0].name = "k7_mul_reduce_sum_add";
  report.kernels[0].spillStores = 48;
  EXPECT_EQ(unlistedSpills(report, "sm_90a").size(), 1u);
  EXPECT_EQ(unlistedSpills(report, "sm_100a"), std::vector<std::string>());
  report.kernels[0].spillStores = 52;
  EXPECT_EQ(unlistedSpills(report, "sm_100a").size(), 1u);
}

// A kernel as NVRTC compiles it for each architecture: within all limits by its text's bounds, beyond them by a launch
// of more threads or shared memory.
TEST(Resources, OfCompiledKernels) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  const std::string text = cuda::deviceText(cuda::Prelude::Portable) +
                           "KERNEL(rows, 256, 2)(const float *in, float *out) {\n  SHARED(float, kept, 4096);\n"
                           "  kept[thread_x()] = in[thread_x()];\n  block_barrier();\n"
                           "  out[thread_x()] = kept[255 - thread_x()];\n}\n";
  for (const std::string &architecture : checkedArchitectures) {
    if (!nvrtc->supports(architecture))
      continue;
    const runtime::cuda::CompileResult result = nvrtc->compile({"rows.cu", text, architecture, {}});
    auto findings = [&](int threads, int dynamic) {
      const LaunchUse launch{"rows", threads, dynamic};
      return resourceFindings(result.report, result.ptx, architecture, std::span(&launch, 1));
    };
    const int rest = limitsOf(architecture).shared - 16384 - 1024; // sm_90 and later keep 1 KiB of static memory
    EXPECT_EQ(findings(256, rest), std::vector<std::string>());
    EXPECT_EQ(findings(512, rest).size(), 1u) << architecture;
    EXPECT_EQ(findings(256, rest + 1028).size(), 1u) << architecture;
  }
}

} // namespace
} // namespace tcc::test
