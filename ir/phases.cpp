// What each phase allows, asked of traits and interfaces.
#include "ir/phases.h"
#include "ir/known_kernels.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr std::pair<Phase, llvm::StringLiteral> names[] = {{Phase::captured, "captured"},
                                                           {Phase::joint, "joint"},
                                                           {Phase::shaped, "shaped"},
                                                           {Phase::fused, "fused"},
                                                           {Phase::planned, "planned"}};

/// Why `op` may not stand in `phase`; empty if it may.
std::string objection(Operation *op, Phase phase) {
  if (phase >= Phase::joint) {
    if (isa<CompositeOpInterface>(op))
      return "composite ops are expanded by 'decompose'";
    if (isa<GradientOp>(op))
      return "gradients are expanded by 'autodiff'";
  }
  if (phase >= Phase::shaped)
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && !tensor.hasStaticShape())
        return "sizes are fixed by 'specialize-shapes'";
  auto literal = dyn_cast<ConstantOp>(op);
  bool isData = literal && !literal.getValue().isSplat(); // in memory, like an argument
  if (phase >= Phase::fused && !isa<StructuredOpInterface>(op) && !op->hasTrait<ViewOp>() && !isData &&
      !isa<func::FuncOp, func::ReturnOp, YieldOp>(op))
    return "computations stand in kernels made by 'fuse-kernels'";
  return {};
}

} // namespace

StringRef phaseName(Phase phase) {
  return names[static_cast<size_t>(phase)].second;
}

std::optional<Phase> parsePhase(StringRef name) {
  for (auto [phase, text] : names)
    if (text == name)
      return phase;
  return std::nullopt;
}

LogicalResult verifyOps(func::FuncOp function) {
  Block &block = function.getBody().front();
  if (!block.mightHaveTerminator())
    return function.emitError("has no return at its end");
  for (Operation &op : block) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (failed(kernel ? KernelForms::verify(kernel) : mlir::verify(&op)))
      return failure();
  }
  return mlir::verify(function, /*verifyRecursively=*/false); // and that values are there before the block reads them
}

LogicalResult verifyPhase(func::FuncOp function, Phase phase) {
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::string why = objection(op, phase);
    if (!why.empty()) {
      op->emitOpError() << "may not stand in phase '" << phaseName(phase) << "': " << why;
      return WalkResult::interrupt();
    }
    if (isa<CustomOp>(op) && phase >= Phase::fused) // its body is its meaning alone, and no kernel
      return WalkResult::skip();
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      return WalkResult::advance();
    const std::shared_ptr<const KnownKernel> known = KernelForms::of(kernel);
    if (known->form)
      return WalkResult::skip();
    op->emitOpError() << "is no legal kernel: " << known->refusal;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace tcc
