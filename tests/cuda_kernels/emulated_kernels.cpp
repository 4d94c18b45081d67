#include "tests/cuda_kernels/emulated_kernels.h"
#include "ir/analyze_kernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "tests/codegen/tensor_bytes.h"
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

func::FuncOp mainOf(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

/// func.func @main(operands) -> results { kernel }
OwningOpRef<ModuleOp> alone(KernelOp kernel) {
  OpBuilder builder(kernel.getContext());
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  auto type = builder.getFunctionType(kernel->getOperandTypes(), kernel->getResultTypes());
  auto function = func::FuncOp::create(builder, loc, "main", type);
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (auto [operand, argument] : llvm::zip(kernel->getOperands(), entry->getArguments()))
    mapping.map(operand, argument);
  Operation *clone = builder.clone(*kernel.getOperation(), mapping);
  clone->setOperands(entry->getArguments()); // operands that are one value are several arguments
  func::ReturnOp::create(builder, loc, clone->getResults());
  return module;
}

/// The entry that a segments kernel reads: addresses, elements, first block.
std::vector<uint64_t> segmentEntry(llvm::ArrayRef<std::unique_ptr<emulator::DeviceBuffer>> buffers, int64_t elements) {
  std::vector<uint64_t> entry;
  for (const auto &buffer : buffers)
    entry.push_back(reinterpret_cast<uint64_t>(buffer->data()));
  entry.push_back(static_cast<uint64_t>(elements));
  entry.push_back(0);
  return entry;
}

} // namespace

std::vector<EmulatedKernel> kernelsOf(ModuleOp fused, const std::string &prefix, uint64_t seed) {
  std::vector<EmulatedKernel> kernels;
  for (Operation &op : mainOf(fused).getBody().front()) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      continue;
    EmulatedKernel made;
    std::string refusal;
    std::optional<KernelInfo> form = analyzeKernel(kernel, refusal, &made.source.names);
    EXPECT_TRUE(form) << refusal;
    if (!form || !cuda::refusal(*form).empty())
      continue;
    made.source.form = std::move(*form);
    made.source.symbol = prefix + std::to_string(kernels.size());
    made.name = made.source.symbol + " " + made.source.names.label;
    made.module = alone(kernel);
    for (Type type : kernel->getOperandTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      bool isFloat = isa<FloatType>(tensor.getElementType());
      made.inputs.push_back(randomTensor(tensor, seed++, isFloat ? -2 : -1, isFloat ? 2 : 9));
    }
    kernels.push_back(std::move(made));
  }
  return kernels;
}

std::vector<RefTensor> runEmulated(const emulator::Module &module, const EmulatedKernel &kernel,
                                   const emulator::Schedule &schedule, std::string &findings) {
  func::FuncOp function = mainOf(*const_cast<OwningOpRef<ModuleOp> &>(kernel.module));
  std::vector<std::unique_ptr<emulator::DeviceBuffer>> buffers;
  for (auto [i, input] : llvm::enumerate(kernel.inputs)) {
    buffers.push_back(std::make_unique<emulator::DeviceBuffer>(tensorBytes(input.type), "in" + std::to_string(i)));
    writeBytes(input, buffers.back()->data());
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    buffers.push_back(
        std::make_unique<emulator::DeviceBuffer>(tensorBytes(cast<RankedTensorType>(type)), "out" + std::to_string(i)));
  cuda::KernelDivision division = cuda::divide(kernel.source.form);
  std::vector<uint64_t> entry = segmentEntry(buffers, kernel.source.form.space.columns);
  emulator::DeviceBuffer table(entry.size() * 8, "table");
  std::memcpy(table.data(), entry.data(), entry.size() * 8);
  std::vector<void *> values, arguments;
  int segments = 1;
  if (division.shape == cuda::KernelShape::segments) {
    values = {table.data()};
    arguments = {&values[0], &segments};
  } else {
    for (const auto &buffer : buffers)
      values.push_back(buffer->data());
    for (void *&value : values)
      arguments.push_back(&value);
  }
  if (division.blocks > 0) {
    emulator::LaunchResult result =
        module.launch(kernel.source.symbol, {static_cast<unsigned>(division.blocks)},
                      {static_cast<unsigned>(division.threads)}, 0, arguments.data(), schedule);
    findings = result.text();
  }
  std::vector<RefTensor> results;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    results.push_back(readBytes(cast<RankedTensorType>(type), buffers[kernel.inputs.size() + i]->data()));
  return results;
}

void checkKernels(llvm::ArrayRef<EmulatedKernel> kernels, llvm::ArrayRef<emulator::Schedule> schedules,
                  Tolerance tolerance) {
  std::string text;
  for (const EmulatedKernel &kernel : kernels)
    text += cuda::kernelText(kernel.source) + "\n";
  std::optional<emulator::Module> module;
  try {
    module = emulator::Module::compile(text);
  } catch (const std::exception &failure) {
    ADD_FAILURE() << failure.what() << "\n" << text;
    return;
  }
  for (const EmulatedKernel &kernel : kernels) {
    SCOPED_TRACE(kernel.name + "\n" + cuda::kernelText(kernel.source));
    func::FuncOp function = mainOf(*const_cast<OwningOpRef<ModuleOp> &>(kernel.module));
    std::vector<RefTensor> first;
    for (const emulator::Schedule &schedule : schedules) {
      std::string findings;
      std::vector<RefTensor> results = runEmulated(*module, kernel, schedule, findings);
      EXPECT_EQ(findings, "");
      if (first.empty())
        first = results;
      EXPECT_TRUE(sameBits(first, results)) << "bits depend on the schedule";
    }
    std::string error;
    auto exact = interpret(function, kernel.inputs, RefMode::exact, error);
    auto rounded = interpret(function, kernel.inputs, RefMode::rounding, error);
    ASSERT_TRUE(succeeded(exact) && succeeded(rounded)) << error;
    for (size_t i = 0; i < first.size(); ++i) {
      Comparison comparison = compare(first[i], (*exact)[i], (*rounded)[i], {}, tolerance);
      EXPECT_TRUE(comparison.ok) << "result " << i << ": " << comparison.message;
    }
  }
}

bool isFullRun() {
  const char *full = std::getenv("TCC_FULL");
  return full && std::string_view(full) == "1";
}

std::vector<emulator::Schedule> dailySchedules() {
  if (isFullRun())
    return emulator::testSchedules();
  return {emulator::Schedule{emulator::Order::Forward, emulator::Async::Late, 1, true, 0},
          emulator::Schedule{emulator::Order::Reverse, emulator::Async::Early, 1, false, 0}};
}

} // namespace tcc::test
