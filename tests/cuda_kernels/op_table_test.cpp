// Every case of the op table, fused at -O2 and one kernel an op, as CUDA text in the emulator.
#include "passes/pipeline.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr size_t kernelsInText = 40;

class CudaOpTable : public testing::TestWithParam<size_t> {};

TEST_P(CudaOpTable, equalsTheInterpreter) {
  const OpRow &row = opTable()[GetParam()];
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  auto flush = [&] {
    checkKernels(kernels, {emulator::Schedule{emulator::Order::Forward, emulator::Async::Late, 1, true, 0},
                           emulator::Schedule{emulator::Order::Reverse, emulator::Async::Early, 1, false, 0},
                           emulator::Schedule{emulator::Order::Random, emulator::Async::Random, 5, false, 0}});
    kernels.clear();
  };
  for (const OpCase &opCase : row.cases)
    for (int level : {0, 2}) {
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << opCase.name << messages;
      PipelineOptions options;
      options.level = level;
      options.stopAfter = Phase::fused;
      PipelineReport report;
      ASSERT_TRUE(succeeded(runPipeline(*module, options, report))) << opCase.name;
      for (EmulatedKernel &kernel : kernelsOf(*module, "case" + std::to_string(kernels.size()) + "_", 11)) {
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
