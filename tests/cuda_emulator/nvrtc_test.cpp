// Every device primitive, and every sample kernel, compiles by NVRTC for its architectures without spills, stack
// frames, local memory or serialised wgmma, and with whole warps at each collective. Without NVRTC the tests are
// skipped.
#include "codegen/cuda/device/device_text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_emulator/lane_maps/lane_maps.h"
#include "tests/cuda_emulator/samples.h"
#include "tests/cuda_runtime/opened_nvrtc.h"

#include <gtest/gtest.h>

namespace tcc::emulator {
namespace {

using cuda::Prelude;
using runtime::cuda::CompileRequest;
using runtime::cuda::Nvrtc;

std::string probeText(const std::string &file) {
  std::ifstream in(std::string(TCC_EMULATOR_PROBES) + "/" + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Case {
  std::string name, text, architecture;
  Prelude prelude;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string &architecture : test::checkedArchitectures) {
    all.push_back({"portable", probeText("portable.cu"), architecture, Prelude::Portable});
    for (const char *sample : {"layer_norm", "product", "flash", "ring"})
      all.push_back({sample, kernelText(std::string(sample) + ".cu"), architecture, Prelude::Portable});
  }
  for (const char *architecture : {"sm_90a", "sm_100a"})
    for (const char *text : {"tma", "stores"})
      all.push_back({text, text == std::string("tma") ? probeText("tma.cu") : kernelText("stores.cu"), architecture,
                     Prelude::Tma});
  all.push_back({"pipeline", kernelText("pipeline.cu"), "sm_90a", Prelude::Wgmma});
  all.push_back({"overlap", kernelText("overlap.cu"), "sm_90a", Prelude::Wgmma});
  all.push_back({"lanes", laneKernelText("lanes.cu"), "sm_80", Prelude::Portable});
  all.push_back({"wgmma_lanes", laneKernelText("wgmma_lanes.cu"), "sm_90a", Prelude::Wgmma});
  for (const char *element : {"bf16", "f16"})
    for (int columns : {32, 64, 96, 128, 192, 256})
      all.push_back({std::string("wgmma_") + element + "_" + std::to_string(columns),
                     "#define ELEMENT " + std::string(element) + "\n#define COLUMNS " + std::to_string(columns) + "\n" +
                         probeText("wgmma.cu"),
                     "sm_90a", Prelude::Wgmma});
  return all;
}

TEST(Nvrtc, EveryPrimitiveCompilesWithoutFindings) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  std::vector<Case> all = cases();
  std::vector<CompileRequest> requests;
  // Two of the samples, no attention kernel, are serialised by NVRTC 12.8 (C7515).
  auto isSerialised = [&](const Case &one) {
    return nvrtc->version() < 12009 && (one.name == "pipeline" || one.name == "overlap");
  };
  for (const Case &one : all)
    if (nvrtc->supports(one.architecture) && !isSerialised(one)) {
      requests.push_back({one.name + ".cu", cuda::deviceText(one.prelude) + one.text, one.architecture, {}, true});
      // Probe builds, whose waits on mbarriers have a limit.
      if (one.text.find("mbarrier_wait") != std::string::npos) {
        requests.push_back(requests.back());
        requests.back().options = {"-DTCC_BARRIER_CLOCK_LIMIT=1000000"};
      }
    }
  ASSERT_GE(requests.size(), 20u) << "this NVRTC knows too few architectures";
  std::vector<runtime::cuda::CompileResult> results = nvrtc->compileAll(requests);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].error, "") << requests[i].name << " for " << requests[i].architecture;
    if (requests[i].options.empty()) { // a probe build's lanes leave when they give up
      EXPECT_EQ(test::divergentCollectives(results[i].ptx), std::vector<std::string>()) << requests[i].name;
    }
    if (results[i].error.empty()) {
      EXPECT_EQ(test::resourceFindings(results[i].report, results[i].ptx, requests[i].architecture),
                std::vector<std::string>());
    }
    EXPECT_FALSE(results[i].cubin.empty()) << requests[i].name << " for " << requests[i].architecture;
  }
}

// The check itself: a kernel with an array indexed at run time has local memory and is refused.
TEST(Nvrtc, LocalMemoryIsRefused) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  std::string text = cuda::deviceText(Prelude::Portable) +
                     "KERNEL(local, 128, 1)(float *out, int n) {\n  float x[64];\n  for (int i = 0; i < n; ++i)\n"
                     "    x[i % 64] = out[i];\n  for (int i = 0; i < n; ++i)\n    out[i] = x[(i * 7) % 64];\n}\n";
  std::vector<CompileRequest> requests = {{"local.cu", text, "sm_80", {}, true}};
  EXPECT_NE(nvrtc->compileAll(requests)[0].error, "");
}

} // namespace
} // namespace tcc::emulator
