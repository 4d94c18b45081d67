// The op table as CUDA text in the emulator: with TCC_FULL=1 every case, fused at -O2 and one kernel an op. A kernel
// form is run once, whichever row it comes from first: another op's row would compile the same text and give it other
// random numbers.
#include "passes/pipeline.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>
#include <unordered_map>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr size_t kernelsInText = 40;
constexpr size_t casesOfDailyRun = 7;
// A kernel in the middle of an op gets inputs that the op would not give it, so that results may cancel.
const Tolerance inner{4, 64};

class CudaOpTable : public testing::TestWithParam<size_t> {
protected:
  /// Whether no kernel of this program's earlier rows and cases had the form.
  static bool isNew(const KernelInfo &form) {
    static std::unordered_map<size_t, std::vector<KernelInfo>> seen; // by hash
    std::vector<KernelInfo> &alike = seen[hashOf(form)];
    if (llvm::is_contained(alike, form))
      return false;
    alike.push_back(form);
    return true;
  }
};

TEST_P(CudaOpTable, equalsTheInterpreter) {
  const OpRow &row = opTable()[GetParam()];
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  auto flush = [&] {
    checkKernels(kernels, dailySchedules(), inner);
    kernels.clear();
  };
  // A daily run takes some cases of a row, spread over its shapes and types, each fused.
  size_t step = isFullRun() ? 1 : std::max<size_t>(1, row.cases.size() / casesOfDailyRun);
  for (size_t number = 0; number < row.cases.size(); number += step)
    for (int level : isFullRun() ? std::vector<int>{0, 2} : std::vector<int>{2}) {
      const OpCase &opCase = row.cases[number];
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << opCase.name << messages;
      PipelineOptions options;
      options.level = level;
      options.stopAfter = Phase::fused;
      PipelineReport report;
      ASSERT_TRUE(succeeded(runPipeline(*module, options, report))) << opCase.name;
      for (EmulatedKernel &kernel : kernelsOf(*module, "case" + std::to_string(kernels.size()) + "_", 11)) {
        if (!isNew(kernel.source.form))
          continue;
        kernel.name += " of " + opCase.name + " at -O" + std::to_string(level);
        kernels.push_back(std::move(kernel));
      }
      if (kernels.size() >= kernelsInText)
        flush();
    }
  if (!kernels.empty())
    flush();
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaOpTable, testing::Range<size_t>(0, opTable().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return StringRef(opTable()[info.param].op).drop_front(4).str();
                         });

} // namespace
} // namespace tcc::test
