// The ops gradient, kernel and yield.
#include "ir/emit.h"
#include "ir/kernel_cost.h"
#include "ir/known_kernels.h"
#include "ir/known_traits.h"
#include "ir/ops/bindings.h"

using namespace mlir;

namespace tcc {

LogicalResult GradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  // Results are inferred before operands are verified: their types may be anything.
  auto isFloat = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && isa<FloatType>(tensor.getElementType());
  };
  Type loss = adaptor.getLoss().getType();
  if (!isFloat(loss) || cast<RankedTensorType>(loss).getRank() != 0)
    return emitOptionalError(loc, "'tcc.gradient' loss is ", loss, "; it must be a float scalar (gradient_c1)");
  for (auto [i, type] : llvm::enumerate(adaptor.getWrt().getTypes()))
    if (!isFloat(type))
      return emitOptionalError(loc, "'tcc.gradient' value ", i, " is ", type,
                               "; it must be a float tensor (gradient_c2)");
  llvm::append_range(types, adaptor.getWrt().getTypes());
  return success();
}

// tcc.kernel (%x = %arg : type, ...) -> (types) { body } attributes
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Bindings bindings;
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parseBindings(parser, bindings) ||
      parser.parseOptionalArrowTypeList(result.types) || resolveBindings(parser, bindings, result))
    return failure();
  return parser.parseRegion(*result.addRegion(), bindings.arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << ' ';
  printBindings(printer, getBody().front().getArguments(), getInputs());
  printer.printOptionalArrowTypeList(getResultTypes());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("block arguments must have the operands' types (kernel_c1)");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != getResultTypes())
    return emitOpError("must end with a tcc.yield of the results' types (kernel_c2)");
  for (Operation &op : block)
    if (!knownTrait<KernelBodyOp>(&op))
      return emitOpError() << "holds '" << op.getName() << "', which may not stand in a kernel (kernel_c3)";
  return success();
}

SmallVector<StridedView, 2> KernelOp::operandViews(const ViewLimits &) {
  SmallVector<StridedView, 2> views;
  for (Value input : getInputs())
    views.push_back(denseView(input));
  return views;
}

llvm::BitVector KernelOp::sharedBuffers() {
  llvm::BitVector shared(getNumResults() * getInputs().size());
  const std::shared_ptr<const KnownKernel> known = KernelForms::of(*this);
  if (known->form)
    for (auto [pair, isShared] : llvm::enumerate(tcc::sharedBuffers(*known->form)))
      shared[pair] = isShared;
  return shared;
}

int64_t KernelOp::flops() {
  const std::shared_ptr<const KnownKernel> known = KernelForms::of(*this);
  return known->form ? costOf(*known->form).flops : 0;
}

int64_t KernelOp::bytes(const ViewLimits &) {
  const std::shared_ptr<const KnownKernel> known = KernelForms::of(*this);
  return known->form ? costOf(*known->form).bytes : 0;
}

} // namespace tcc
