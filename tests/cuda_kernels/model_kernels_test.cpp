// The kernels of whole training steps, in the emulator and as a plan for one GPU.
#include "codegen/cuda/modules.h"
#include "codegen/cuda/target.h"
#include "codegen/lower_plan.h"
#include "passes/pipeline.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/cuda_kernels/model_steps.h"
#include "tests/cuda_runtime/opened_nvrtc.h"
#include "tests/ops/op_table.h"
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <set>

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

std::string nameOf(std::string preset) {
  llvm::replace(preset, '-', '_');
  return preset;
}

class ModelKernels : public testing::TestWithParam<const char *> {};

/// Kernels whose warps share a block's rows and leave their totals in shared memory.
bool sharesRows(const EmulatedKernel &kernel) {
  cuda::KernelDivision division = cuda::divide(kernel.source.form);
  bool shares = division.shape == cuda::KernelShape::columns || division.shape == cuda::KernelShape::warpColumns;
  return shares && division.threads > 32;
}

/// The kernels of a step, each form once; `seen` are those of other steps.
void addKernels(
    const models::ModelConfig &config, std::pair<int64_t, int64_t> batchAndTime, ProductType products,
    MLIRContext &context, std::vector<KernelInfo> &seen, std::vector<EmulatedKernel> &small,
    std::vector<EmulatedKernel> &large,
    llvm::function_ref<bool(const EmulatedKernel &)> wanted = [](const EmulatedKernel &) { return true; }) {
  OwningOpRef<ModuleOp> module = modelStep(context, config, batchAndTime.first, batchAndTime.second);
  ASSERT_TRUE(module);
  cuda::CudaTarget target({});
  PipelineOptions options;
  options.target = target.model();
  options.queries = &target;
  options.products = products;
  options.stopAfter = Phase::fused;
  PipelineReport report;
  ASSERT_TRUE(succeeded(runPipeline(*module, options, report)));
  for (EmulatedKernel &kernel : kernelsOf(*module, products == ProductType::bf16 ? "n" : "k", 5)) {
    KernelInfo form = normalized(kernel.source.form);
    if (!wanted(kernel) || llvm::is_contained(seen, form) ||
        (form.isSegment() && elementsOf(kernel.source.form) > mostSegment))
      continue;
    seen.push_back(std::move(form));
    (elementsOf(kernel.source.form) > mostChecked ? large : small).push_back(std::move(kernel));
  }
}

TEST_P(ModelKernels, equalTheInterpreter) {
  models::ModelConfig config = presetOf(GetParam(), 1, 1009);
  auto context = makeContext();
  std::vector<EmulatedKernel> small, large;
  std::vector<KernelInfo> seen;
  addKernels(config, {2, 16}, ProductType::asWritten, *context, seen, small, large);
  size_t wide = seen.size();
  addKernels(config, {2, 16}, ProductType::bf16, *context, seen, small, large);
  EXPECT_GT(wide, 20u);
  EXPECT_GT(seen.size(), wide + 5);
  std::vector<emulator::Schedule> schedules = emulator::testSchedules();
  schedules.resize(3);
  checkKernels(small, schedules, inner);
  for (emulator::Schedule &schedule : schedules)
    schedule.checkAccesses = false;
  checkKernels(large, schedules, inner);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ModelKernels, testing::Values("baby", "char", "gpt2", "llama-baby"),
                         [](const auto &info) { return nameOf(info.param); });

/// The kernel's text with its warp's number taken where totals are left: in the branch of lanes that have a column.
std::string withALateWarpIndex(std::string text) {
  const std::string was = "[warp * ", is = "[warp_index() * ";
  for (size_t at = text.find(was); at != std::string::npos; at = text.find(was, at + is.size()))
    text.replace(at, was.size(), is);
  return text;
}

struct TotalsCase {
  const char *preset;
  int64_t batch, time;
};
void PrintTo(const TotalsCase &totals, std::ostream *out) {
  *out << totals.preset;
}
class ModelTotals : public testing::TestWithParam<TotalsCase> {};

// A shuffle in a branch of some lanes stands for ever on a device. What the compiler writes has none; the same text
// with one is found, in the emulator and as compiled, wherever a tile of columns is not whole warps' alone.
TEST_P(ModelTotals, aShuffleOfSomeLanesIsFound) {
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  std::vector<KernelInfo> seen;
  auto [preset, batch, time] = GetParam();
  addKernels(presetOf(preset, 1, 1009), {batch, time}, ProductType::bf16, *context, seen, kernels, kernels, sharesRows);
  std::string sound, late;
  for (const EmulatedKernel &kernel : kernels) {
    sound += cuda::kernelText(kernel.source) + "\n";
    late += withALateWarpIndex(cuda::kernelText(kernel.source)) + "\n";
  }
  emulator::Module right = emulator::Module::compile(sound), wrong = emulator::Module::compile(late);
  std::set<std::string> partial; // kernels with lanes that have no column
  for (const EmulatedKernel &kernel : kernels) {
    SCOPED_TRACE(cuda::kernelText(kernel.source));
    std::string findings, stops;
    runEmulated(right, kernel, {}, findings);
    EXPECT_EQ(findings, "");
    runEmulated(wrong, kernel, {}, stops);
    bool isPartial = kernel.source.form.space.columns % (32 * cuda::divide(kernel.source.form).vector) != 0;
    EXPECT_EQ(stops.find("divergence") != std::string::npos, isPartial) << stops;
    if (isPartial)
      partial.insert(kernel.source.symbol);
  }
  EXPECT_FALSE(partial.empty());
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message(); // the emulator alone, then
  auto divergent = [&](const std::string &text) {
    std::string all = cuda::deviceText(cuda::Prelude::Portable) + text;
    std::set<std::string> names;
    for (const std::string &finding :
         divergentCollectives(nvrtc->compile({"totals.cu", all, "sm_90a", {"--fmad=false"}}).ptx))
      names.insert(finding.substr(0, finding.find(':')));
    return names;
  };
  EXPECT_EQ(divergent(sound), std::set<std::string>());
  const std::set<std::string> found = divergent(late); // a tile that is full by its numbers alone may count as partial
  EXPECT_TRUE(std::includes(found.begin(), found.end(), partial.begin(), partial.end()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ModelTotals,
                         testing::Values(TotalsCase{"baby", 2, 16}, TotalsCase{"char", 2, 16},
                                         TotalsCase{"llama-baby", 2, 16}, TotalsCase{"gpt2-xl", 16, 64}),
                         [](const auto &info) { return nameOf(info.param.preset); });

constexpr int64_t sequence = 1024;

/// A preset's plan for a GPU, and its kernels. `columnParts`: other than the target's model has it, where it is given.
runtime::Plan planOf(const char *preset, int64_t batch, int64_t time, ProductType products, KernelTable &kernels,
                     const char *architecture = "sm_90a", std::optional<int64_t> columnParts = {}) {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module = modelStep(*context, *models::modelPreset(preset), batch, time);
  cuda::CudaTarget target({architecture});
  PipelineOptions options;
  options.target = target.model();
  options.target.columnParts = columnParts.value_or(options.target.columnParts);
  options.queries = &target;
  options.products = products;
  PipelineReport report;
  if (!module || failed(runPipeline(*module, options, report))) {
    ADD_FAILURE() << "the pipeline failed";
    return {};
  }
  auto plan = lowerPlan(*module->getOps<func::FuncOp>().begin(), target, 1, kernels);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? std::move(*plan) : runtime::Plan();
}

/// Bytes through kernels by label, without matmuls, attention, and losses over whole rows of logits.
std::map<std::string, int64_t> elementwiseTraffic(const runtime::Plan &plan, int64_t tokens) {
  std::map<std::string, int64_t> traffic;
  for (const runtime::Instruction &instruction : plan.instructions) {
    const auto *launch = std::get_if<runtime::LaunchCall>(&instruction.call);
    if (!launch || StringRef(instruction.label).contains("flash_attention"))
      continue;
    bool overLogits = llvm::any_of(launch->pointerSlots, [&](const runtime::PointerSlot &slot) {
      const runtime::Buffer &buffer = plan.buffers[slot.buffer];
      return buffer.space == runtime::Space::arena && buffer.bytes >= tokens * 50257 * 2;
    });
    if (!overLogits)
      traffic[instruction.label] += instruction.bytes;
  }
  return traffic;
}

// What a step may cost in launches and in traffic, and whether large kernels have work for each of an H200's 132
// multiprocessors.
TEST(ModelPlan, Gpt2HasFewLaunchesLittleTrafficAndEnoughBlocks) {
  constexpr int64_t multiprocessors = 132, large = 10'000'000; // bytes
  KernelTable kernels, ofTwice;
  runtime::Plan plan = planOf("gpt2", 8, sequence, ProductType::bf16, kernels),
                twice = planOf("gpt2", 16, sequence, ProductType::bf16, ofTwice);
  std::map<std::string, int> byKind;
  for (const runtime::Instruction &instruction : plan.instructions) {
    const auto *launch = std::get_if<runtime::LaunchCall>(&instruction.call);
    ++byKind[launch ? instruction.label : "product"];
    if (launch && instruction.bytes > large) {
      EXPECT_GE(launch->grid[0] * launch->grid[1] * launch->grid[2], 2 * multiprocessors)
          << instruction.label << ", " << instruction.bytes / 1000000 << " MB";
    }
  }
  // What grows with the batch is a token's; weights and their casts are a step's.
  std::map<std::string, int64_t> less = elementwiseTraffic(plan, 8 * sequence),
                                 more = elementwiseTraffic(twice, 16 * sequence);
  double sum = 0;
  std::map<std::string, double> ofToken;
  for (const auto &[label, bytes] : more)
    sum += ofToken[label] = static_cast<double>(bytes - less[label]) / (8 * sequence) / 1000;
  if (std::getenv("TCC_PRINT")) { // the figures, for people
    for (const auto &[label, count] : byKind)
      printf("%4d %8.1f KB a token  %s\n", count, ofToken[label], label.c_str());
    printf("%zu launches, %.0f KB a token of elementwise traffic\n", plan.instructions.size(), sum);
  }
  EXPECT_LE(plan.instructions.size(), 266u);
  EXPECT_LE(sum, 520);
  EXPECT_GT(sum, 0);
}

// A plan with f32 attention, which has no kernels of one architecture, is the same for each GPU: no part of a sum
// follows the device. A model that asked for its multiprocessors would be seen.
TEST(ModelPlan, FollowsNoDevice) {
  KernelTable first, second, third;
  runtime::Plan h200 = planOf("baby", 32, 64, ProductType::asWritten, first);
  EXPECT_TRUE(planOf("baby", 32, 64, ProductType::asWritten, second, "sm_80") == h200);
  EXPECT_FALSE(planOf("baby", 32, 64, ProductType::asWritten, third, "sm_80", 4 * 108) == h200);
}

// Its norm adds up 148 gradients, and its layer norms keep rows in registers: nothing that random steps have is as
// large. Each launch of the plan has what it needs. Attention's kernels have a test of their own. Skipped where NVRTC
// cannot be opened.
TEST(ModelPlan, Gpt2sKernelsFitEveryDevice) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  for (const std::string &architecture : checkedArchitectures) {
    if (!nvrtc->supports(architecture))
      continue;
    KernelTable kernels;
    runtime::Plan plan = planOf("gpt2", 8, sequence, ProductType::bf16, kernels, architecture.c_str());
    std::vector<LaunchUse> launches;
    for (const runtime::Instruction &instruction : plan.instructions)
      if (const auto *launch = std::get_if<runtime::LaunchCall>(&instruction.call))
        launches.push_back({plan.kernels[launch->kernel].symbol,
                            static_cast<int>(launch->block[0] * launch->block[1] * launch->block[2]),
                            static_cast<int>(launch->sharedBytes)});
    auto hasAttention = [](const runtime::Instruction &instruction) {
      return std::holds_alternative<runtime::LaunchCall>(instruction.call) &&
             StringRef(instruction.label).contains("flash_attention");
    };
    size_t launched = static_cast<size_t>(llvm::count_if(plan.instructions, hasAttention));
    std::vector<KernelSource> emitted;
    llvm::copy_if(kernels.sources(), std::back_inserter(emitted),
                  [](const KernelSource &source) { return std::holds_alternative<FormKernel>(source); });
    EXPECT_GT(emitted.size(), 20u);
    std::vector<runtime::cuda::CompileRequest> requests;
    for (const cuda::ModuleText &module : cuda::moduleTexts(emitted))
      requests.push_back(
          {"gpt2.cu", cuda::deviceText(module.prelude) + module.text, architecture, module.options, false});
    for (const runtime::cuda::CompileResult &result : nvrtc->compileAll(requests)) {
      EXPECT_EQ(result.error, "");
      EXPECT_EQ(divergentCollectives(result.ptx), std::vector<std::string>());
      EXPECT_EQ(resourceFindings(result.report, result.ptx, architecture, launches), std::vector<std::string>());
      EXPECT_EQ(unlistedSpills(result.report, architecture), std::vector<std::string>());
      EXPECT_EQ(result.report.lostPerformance, std::vector<std::string>());
      for (const LaunchUse &launch : launches)
        launched += result.report.find(launch.kernel) != nullptr;
      if (std::getenv("TCC_PRINT")) // the figures, for people
        for (const runtime::cuda::KernelFigures &kernel : result.report.kernels)
          printf("%-8s %4d registers %6d bytes shared %4d spilled  %s\n", architecture.c_str(), kernel.registers,
                 kernel.sharedBytes, kernel.spillStores, kernel.name.c_str());
    }
    EXPECT_EQ(launched, launches.size());
    EXPECT_GT(launched, 100u);
  }
}

} // namespace
} // namespace tcc::test
