// Kernels of random training steps (forward, gradients, updated states, some in bf16) as CUDA text in the emulator.
#include "passes/pipeline.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

// Results of one element, after chains of ops that cancel: one rounded run may be right by luck.
const Tolerance chain{4, 16};

// In parts, so that a full run has work for several processors.
constexpr uint64_t parts = 4;

class CudaRandomGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(CudaRandomGraphs, kernelsEqualTheInterpreter) {
  auto context = makeContext();
  const uint64_t graphs = isFullRun() ? 100 : 25;
  size_t kernelsSeen = 0;
  for (uint64_t seed = GetParam(); seed <= graphs; seed += parts) {
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
  EXPECT_GT(kernelsSeen, 5 * (graphs / parts));
}

INSTANTIATE_TEST_SUITE_P(Parts, CudaRandomGraphs, testing::Range<uint64_t>(1, parts + 1));

} // namespace
} // namespace tcc::test
