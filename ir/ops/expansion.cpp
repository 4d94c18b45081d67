#include "ir/ops/expansion.h"

using namespace mlir;

namespace tcc {

// The loss is Σ result · dResult. Operands are copied by casts to their own types: an operand may depend on another, as
// attention's result on its queries, and what is asked for is the gradient with that one constant.
SmallVector<Value> gradientOfExpansion(Emit &b, ExpandableOpInterface op, ValueRange dResults) {
  Operation *copy = b.builder.clone(*op.getOperation());
  SmallVector<Value> wrt;
  for (OpOperand &operand : copy->getOpOperands())
    if (isa<FloatType>(tensorType(operand.get()).getElementType())) {
      OpBuilder::InsertionGuard guard(b.builder);
      b.builder.setInsertionPoint(copy);
      operand.set(b.create<CastOp>(operand.get().getType(), operand.get()));
      wrt.push_back(operand.get());
    }
  SmallVector<Value> results = cast<ExpandableOpInterface>(copy).expand(b);
  copy->erase();
  Value loss = b.zeros(RankedTensorType::get({}, b.f32()));
  for (auto [result, given] : llvm::zip_equal(results, dResults)) {
    if (!given)
      continue;
    Value product = b.mul(b.cast(result, b.f32()), b.cast(given, b.f32()));
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(product).getRank()));
    loss = b.add(loss, b.reshape(b.reduceSum(product, axes), {}));
  }
  auto gradient = GradientOp::create(b.builder, b.loc, loss, wrt);
  SmallVector<Value> shares;
  auto next = gradient.getResults().begin();
  for (Value operand : op->getOperands())
    shares.push_back(isa<FloatType>(tensorType(operand).getElementType()) ? Value(*next++) : Value());
  return shares;
}

} // namespace tcc
