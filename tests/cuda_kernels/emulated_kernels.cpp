#include "tests/cuda_kernels/emulated_kernels.h"
#include "codegen/graph_reference.h"
#include "ir/analyze_kernel.h"
#include "ir/reference/bytes.h"
#include "ir/tensor_bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include <bit>
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

/// The function with the kernel's ops in its place.
OwningOpRef<ModuleOp> withoutKernel(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  auto kernel = *mainOf(*copy).getOps<KernelOp>().begin();
  OpBuilder builder(kernel);
  IRMapping mapping;
  mapping.map(kernel.getBody().getArguments(), kernel.getInputs());
  for (Operation &op : kernel.getBody().front().without_terminator())
    builder.clone(op, mapping);
  for (auto [result, value] : llvm::zip(kernel.getResults(), kernel.getBody().front().getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookup(value));
  kernel.erase();
  return copy;
}

using Buffers = std::vector<std::unique_ptr<emulator::DeviceBuffer>>;

/// Buffers of the kernel's inputs, filled, and of its results.
Buffers buffersOf(const EmulatedKernel &kernel, func::FuncOp function) {
  Buffers buffers;
  for (auto [i, input] : llvm::enumerate(kernel.inputs)) {
    buffers.push_back(std::make_unique<emulator::DeviceBuffer>(byteSize(input.type), "in" + std::to_string(i)));
    writeBytes(input, buffers.back()->data());
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    buffers.push_back(
        std::make_unique<emulator::DeviceBuffer>(byteSize(cast<RankedTensorType>(type)), "out" + std::to_string(i)));
  return buffers;
}

std::vector<RefTensor> resultsIn(const Buffers &buffers, const EmulatedKernel &kernel, func::FuncOp function) {
  std::vector<RefTensor> results;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    results.push_back(readBytes(cast<RankedTensorType>(type), buffers[kernel.inputs.size() + i]->data()));
  return results;
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
                                   const emulator::Schedule &schedule, std::string &findings,
                                   std::optional<unsigned> over) {
  func::FuncOp function = mainOf(*const_cast<OwningOpRef<ModuleOp> &>(kernel.module));
  Buffers buffers = buffersOf(kernel, function);
  if (over)
    std::swap(buffers[*over], buffers[kernel.inputs.size()]); // what was the argument's is the result's
  cuda::KernelDivision division = cuda::divide(kernel.source.form);
  int columns = static_cast<int>(kernel.source.form.space.columns);
  std::vector<void *> values, arguments;
  for (const auto &buffer : buffers)
    values.push_back(buffer->data());
  if (over)
    values[*over] = values[kernel.inputs.size()];
  for (void *&value : values)
    arguments.push_back(&value);
  if (division.shape == cuda::KernelShape::segments)
    arguments.push_back(&columns);
  if (division.blocks > 0)
    findings = module
                   .launch(kernel.source.symbol, {static_cast<unsigned>(division.blocks)},
                           {static_cast<unsigned>(division.threads)}, static_cast<size_t>(division.sharedBytes),
                           arguments.data(), schedule)
                   .text();
  return resultsIn(buffers, kernel, function);
}

std::vector<std::vector<RefTensor>> runJoined(const emulator::Module &module, const EmulatedKernel &kernel, int count,
                                              const emulator::Schedule &schedule, std::string &findings) {
  func::FuncOp function = mainOf(*const_cast<OwningOpRef<ModuleOp> &>(kernel.module));
  cuda::KernelDivision division = cuda::divide(kernel.source.form);
  bool segments = division.shape == cuda::KernelShape::segments;
  std::vector<Buffers> sets;
  std::vector<uint64_t> entries;
  for (int i = 0; i < count; ++i) {
    sets.push_back(buffersOf(kernel, function));
    for (const auto &buffer : sets.back())
      entries.push_back(reinterpret_cast<uint64_t>(buffer->data()));
    if (segments) {
      entries.push_back(static_cast<uint64_t>(kernel.source.form.space.columns));
      entries.push_back(static_cast<uint64_t>(i * division.blocks));
    }
  }
  EXPECT_EQ(static_cast<int64_t>(entries.size()) * 8, count * cuda::tableEntryBytes(kernel.source.form));
  emulator::DeviceBuffer table(entries.size() * 8, "table");
  std::memcpy(table.data(), entries.data(), entries.size() * 8);
  void *address = table.data();
  int half = static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
  std::vector<void *> arguments = {&address, &count, &half};
  auto blocks = static_cast<unsigned>(division.blocks), many = static_cast<unsigned>(count);
  if (blocks > 0)
    findings = module
                   .launch(cuda::functionName(kernel.source.symbol, cuda::KernelCalling::joined),
                           segments ? emulator::Dim3{blocks * many} : emulator::Dim3{blocks, many},
                           {static_cast<unsigned>(division.threads)}, static_cast<size_t>(division.sharedBytes),
                           arguments.data(), schedule)
                   .text();
  std::vector<std::vector<RefTensor>> results;
  for (const Buffers &buffers : sets)
    results.push_back(resultsIn(buffers, kernel, function));
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
      if (!kernel.source.joined)
        continue;
      for (const std::vector<RefTensor> &joined : runJoined(*module, kernel, 3, schedule, findings))
        EXPECT_TRUE(sameBits(first, joined)) << "bits depend on how it is called";
      EXPECT_EQ(findings, "");
    }
    auto exact = interpret(function, kernel.inputs, RefMode::exact);
    auto rounded = interpret(function, kernel.inputs, RefMode::rounding);
    ASSERT_TRUE(exact && rounded) << exact.error().message() << rounded.error().message();
    std::string problem;
    for (size_t i = 0; i < first.size(); ++i)
      if (Comparison comparison = compare(first[i], (*exact)[i], (*rounded)[i], {}, tolerance); !comparison.ok)
        problem += "result " + std::to_string(i) + ": " + comparison.message + "\n";
    if (problem.empty())
      continue;
    // One rounding run may be exact by luck: a reference of several says how far the ops may be off.
    OwningOpRef<ModuleOp> ops = withoutKernel(*const_cast<OwningOpRef<ModuleOp> &>(kernel.module));
    auto reference = Reference::make(*ops, kernel.inputs);
    ASSERT_TRUE(reference) << reference.error().message();
    EXPECT_TRUE(reference->checkChain(first, tolerance).empty()) << problem;
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
