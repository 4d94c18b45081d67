// Custom ops as instructions.
#include "codegen/custom.h"
#include "codegen/lower_plan.h"
#include "codegen/product.h"
#include "ir/names.h"
#include <filesystem>

using namespace mlir;

namespace tcc {
namespace {

using runtime::BufferId;

runtime::CustomTensor tensorOf(RankedTensorType type, BufferId buffer) {
  return {buffer, *runtimeDType(type.getElementType()), std::vector<int64_t>(type.getShape())};
}

std::array<int64_t, 3> threeSizes(std::optional<ArrayRef<int64_t>> given, int64_t first) {
  std::array<int64_t, 3> sizes{first, 1, 1};
  if (given)
    llvm::copy(*given, sizes.begin());
  return sizes;
}

void addParameter(runtime::LaunchCall &launch, int64_t value) {
  launch.parameterOffsets.push_back(static_cast<int64_t>(launch.parameters.size()));
  launch.parameters.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Kernels of one name and other texts are told apart by the text.
bool sameKernelOtherText(const KernelTable &kernels, StringRef symbol, StringRef text) {
  return llvm::any_of(kernels.sources(), [&](const KernelSource &source) {
    const auto *written = std::get_if<TextKernel>(&source);
    return symbolOf(source) == symbol && (!written || written->text != text);
  });
}

} // namespace

runtime::CustomCall customCall(CustomOp op) {
  runtime::CustomCall call;
  call.name = op.getCalled().str();
  if (std::optional<StringRef> library = op.getLibrary()) {
    call.library = std::filesystem::absolute(library->str()).lexically_normal().string();
    call.symbol = op.getSymbol()->str();
  } else {
    call.host = static_cast<int64_t>(op.getHostFunction().value_or(0));
  }
  for (Value input : op.getInputs())
    call.inputs.push_back(tensorOf(tensorType(input), runtime::noBuffer));
  for (Value result : op.getResults())
    call.outputs.push_back(tensorOf(tensorType(result), runtime::noBuffer));
  return call;
}

void lowerCustomCall(const StructuredCall &call, runtime::Plan &plan) {
  auto op = cast<CustomOp>(call.op);
  runtime::CustomCall made = customCall(op);
  for (auto [tensor, buffer] : llvm::zip_equal(made.inputs, call.operands))
    tensor.buffer = buffer;
  for (auto [tensor, buffer] : llvm::zip_equal(made.outputs, call.results))
    tensor.buffer = buffer;
  runtime::Instruction instruction;
  instruction.label = "custom " + op.getCalled().str();
  instruction.call = std::move(made);
  plan.instructions.push_back(std::move(instruction));
}

runtime::Error lowerCustomLaunch(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) {
  constexpr int64_t usualBlock = 256;
  auto op = cast<CustomOp>(call.op);
  const std::string symbol = op.getCudaKernel()->str(), text = op.getCuda()->str();
  if (sameKernelOtherText(kernels, symbol, text))
    return runtime::Error("custom op '" + op.getCalled().str() + "' has a kernel '" + symbol +
                          "', and so has another text of this step; kernels have names of their own");
  runtime::LaunchCall launch;
  launch.block = threeSizes(op.getBlock(), usualBlock);
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const int64_t elements = tensorType(op.getResult(0)).getNumElements();
  launch.grid = threeSizes(
      op.getGrid(), llvm::divideCeil(elements, static_cast<int64_t>(op.getElementsPerBlock().value_or(threads))));
  launch.sharedBytes = static_cast<int64_t>(op.getSharedBytes().value_or(0));
  auto pointer = [&](BufferId buffer, bool written) {
    launch.pointerSlots.push_back({static_cast<int64_t>(launch.parameters.size()), buffer, written, !written});
    addParameter(launch, 0);
  };
  for (BufferId buffer : call.operands)
    pointer(buffer, false);
  for (BufferId buffer : call.results)
    pointer(buffer, true);
  for (int64_t value : op.getCudaArguments().value_or(ArrayRef<int64_t>()))
    addParameter(launch, value);
  launch.kernel = addKernel(plan, kernels, {symbol, text}, static_cast<uint32_t>(launch.parameterOffsets.size()),
                            op.getCalled().str());
  if (elements == 0)
    return {}; // there is nothing to compute
  runtime::Instruction instruction;
  instruction.label = "custom " + op.getCalled().str();
  instruction.call = std::move(launch);
  plan.instructions.push_back(std::move(instruction));
  return {};
}

runtime::Error refuseCustomCode(ModuleOp module) {
  std::string refusal;
  module.walk([&](CustomOp op) {
    if (refusal.empty() && (op.getLibrary() || op.getCuda()))
      refusal = "custom op '" + op.getCalled().str() + "' has code of its own, " +
                (op.getLibrary() ? "in '" + op.getLibrary()->str() + "'" : std::string("as CUDA text")) +
                "; --allow-custom-code lets it run";
  });
  return refusal.empty() ? runtime::Error::success() : runtime::Error(std::move(refusal));
}

} // namespace tcc
