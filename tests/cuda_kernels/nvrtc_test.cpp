// What the CUDA emitter writes, through NVRTC for every architecture: whole warps at each collective, what each device
// has of registers and shared memory, no spill, and no stack or local memory where no sine is computed. Skipped, with
// the reason, where NVRTC cannot be opened.
#include "codegen/cuda/device/device_text.h"
#include "passes/pipeline.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/cuda_runtime/opened_nvrtc.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// Texts of the kernels of random training steps, by step: 8, or 100 in a full run.
std::vector<std::string> texts() {
  auto context = makeContext();
  std::vector<std::string> all;
  for (uint64_t seed = 1; seed <= (isFullRun() ? 100u : 8u); ++seed) {
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed);
    PipelineOptions options;
    options.stopAfter = Phase::fused;
    PipelineReport report;
    EXPECT_TRUE(succeeded(runPipeline(*module, options, report)));
    std::string text = cuda::deviceText(cuda::Prelude::Portable);
    for (const EmulatedKernel &kernel : kernelsOf(*module, "k", seed))
      text += cuda::kernelText(kernel.source) + "\n";
    all.push_back(std::move(text));
  }
  return all;
}

TEST(CudaKernelsNvrtc, compileWithoutFindingsForEveryArchitecture) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  std::vector<runtime::cuda::CompileRequest> requests;
  for (const std::string &text : texts())
    for (const std::string &architecture : checkedArchitectures)
      if (nvrtc->supports(architecture))
        requests.push_back({"random_graph.cu", text, architecture, {"--fmad=false"}, false});
  ASSERT_GE(requests.size(), 16u);
  std::vector<runtime::cuda::CompileResult> results = nvrtc->compileAll(requests);
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].error, "") << results[i].log;
    // CUDA's own reduction of large arguments of sine and cosine keeps its digits in local memory.
    bool hasSines = requests[i].text.find("= sin_f32(") != std::string::npos ||
                    requests[i].text.find("= cos_f32(") != std::string::npos;
    EXPECT_EQ(divergentCollectives(results[i].ptx), std::vector<std::string>()) << requests[i].text;
    EXPECT_EQ(hasSines ? "" : runtime::cuda::ptxasFindings(results[i].report), "") << requests[i].architecture;
    EXPECT_EQ(resourceFindings(results[i].report, results[i].ptx, requests[i].architecture),
              std::vector<std::string>());
    EXPECT_EQ(unlistedSpills(results[i].report, requests[i].architecture), std::vector<std::string>());
  }
}

} // namespace
} // namespace tcc::test
