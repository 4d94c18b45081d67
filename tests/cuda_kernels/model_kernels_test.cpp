// The kernels of whole training steps, in the emulator and as a plan for one GPU.
#include "codegen/cuda/target.h"
#include "codegen/lower_plan.h"
#include "passes/pipeline.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/cuda_kernels/model_steps.h"
#include "tests/ops/op_table.h"
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>

using namespace mlir;

namespace tcc::test {
namespace {

// A kernel in the middle of a step gets inputs that the step would not give it, so that results may cancel.
const Tolerance inner{4, 64};
constexpr int64_t mostChecked = 20000;  // elements of a kernel whose every access is looked at
constexpr int64_t mostSegment = 200000; // segments are equal but for their number of blocks: larger ones are left out

int64_t elementsOf(const KernelInfo &form) {
  int64_t most = form.space.elements();
  for (const KernelTensor &result : form.results)
    most = std::max(most, result.elements);
  return most;
}

class ModelKernels : public testing::TestWithParam<const char *> {};

TEST_P(ModelKernels, equalTheInterpreter) {
  models::Gpt2Config config = *models::gpt2Preset(GetParam());
  config.layers = std::min<int64_t>(config.layers, 1);
  config.vocab = std::min<int64_t>(config.vocab, 1009);
  auto context = makeContext();
  OwningOpRef<ModuleOp> module = modelStep(*context, config, 2, 16);
  ASSERT_TRUE(module);
  PipelineOptions options;
  options.target = cuda::cudaModel();
  options.stopAfter = Phase::fused;
  PipelineReport report;
  ASSERT_TRUE(succeeded(runPipeline(*module, options, report)));
  std::vector<EmulatedKernel> small, large;
  std::vector<KernelInfo> seen;
  for (EmulatedKernel &kernel : kernelsOf(*module, "k", 5)) {
    KernelInfo form = normalized(kernel.source.form);
    if (llvm::is_contained(seen, form) || (form.isSegment() && elementsOf(kernel.source.form) > mostSegment))
      continue;
    seen.push_back(std::move(form));
    (elementsOf(kernel.source.form) > mostChecked ? large : small).push_back(std::move(kernel));
  }
  EXPECT_GT(seen.size(), 20u);
  std::vector<emulator::Schedule> schedules = emulator::testSchedules();
  schedules.resize(3);
  checkKernels(small, schedules, inner);
  for (emulator::Schedule &schedule : schedules)
    schedule.checkAccesses = false;
  checkKernels(large, schedules, inner);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ModelKernels, testing::Values("baby", "char", "gpt2"));

/// GPT-2 124M at B 8, T 1024, compiled for a GPU.
runtime::Plan planOfGpt2() {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module = modelStep(*context, *models::gpt2Preset("gpt2"), 8, 1024);
  cuda::CudaTarget target({});
  PipelineOptions options;
  options.target = target.model();
  options.queries = &target;
  PipelineReport report;
  KernelTable kernels;
  std::string error;
  std::optional<runtime::Plan> plan;
  if (module && succeeded(runPipeline(*module, options, report)))
    plan = lowerPlan(*module->getOps<func::FuncOp>().begin(), target, 1, kernels, error);
  EXPECT_TRUE(plan) << error;
  return plan ? std::move(*plan) : runtime::Plan();
}

// What a step may cost in launches, and whether large kernels have work for each of an H200's 132 multiprocessors.
TEST(ModelPlan, Gpt2HasFewLaunchesAndEnoughBlocks) {
  constexpr int64_t multiprocessors = 132, large = 10'000'000; // bytes
  runtime::Plan plan = planOfGpt2();
  std::map<std::string, int> byKind;
  int products = 0;
  int64_t bytes = 0;
  for (const runtime::Instruction &instruction : plan.instructions) {
    const auto *launch = std::get_if<runtime::LaunchCall>(&instruction.call);
    if (!launch) {
      products += std::holds_alternative<runtime::MatmulCall>(instruction.call);
      continue;
    }
    ++byKind[instruction.label];
    bytes += instruction.bytes;
    int64_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (instruction.bytes > large) {
      EXPECT_GE(blocks, 2 * multiprocessors) << instruction.label << ", " << instruction.bytes / 1000000 << " MB";
    }
  }
  if (std::getenv("TCC_PRINT")) { // the figures, for people
    for (const auto &[label, count] : byKind)
      printf("%4d %s\n", count, label.c_str());
    printf("%4d products, %zu in all; %.0f KB a token through kernels\n", products, plan.instructions.size(),
           static_cast<double>(bytes) / 8192 / 1000);
  }
  EXPECT_LE(plan.instructions.size(), 520u);
}

} // namespace
} // namespace tcc::test
