// Kernels of random training steps (forward, gradients, updated states, some in bf16) as CUDA text in the emulator.
#include "passes/pipeline.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

// Results of one element, behind chains of ops that cancel: one rounded run may be right by luck.
const Tolerance chain{4, 16};

TEST(CudaRandomGraphs, kernelsEqualTheInterpreter) {
  auto context = makeContext();
  const uint64_t graphs = isFullRun() ? 100 : 25;
  size_t kernelsSeen = 0;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed);
    PipelineOptions options;
    options.stopAfter = Phase::fused;
    PipelineReport report;
    ASSERT_TRUE(succeeded(runPipeline(*module, options, report)));
    std::vector<EmulatedKernel> kernels = kernelsOf(*module, "k", seed);
    kernelsSeen += kernels.size();
    checkKernels(kernels, dailySchedules(), chain);
  }
  EXPECT_GT(kernelsSeen, 5 * graphs);
}

} // namespace
} // namespace tcc::test
