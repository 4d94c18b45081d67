#include "codegen/cuda/lower_custom.h"
#include "codegen/lower_plan.h"
#include "ir/dialect.h"

using namespace mlir;

namespace tcc::cuda {
namespace {

using runtime::BufferId;

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

/// Whether another text of the step has a kernel of this name.
bool sameKernelOtherText(const KernelTable &kernels, StringRef symbol, StringRef text) {
  return llvm::any_of(kernels.sources(), [&](const KernelSource &source) {
    const auto *written = std::get_if<TextKernel>(&source);
    return symbolOf(source) == symbol && (!written || written->text != text);
  });
}

} // namespace

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

} // namespace tcc::cuda
