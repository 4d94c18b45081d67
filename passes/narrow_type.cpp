#include "passes/narrow_type.h"

using namespace mlir;

namespace tcc {

Type narrowType(ProductType products, MLIRContext *context) {
  switch (products) {
  case ProductType::asWritten:
    return {};
  case ProductType::bf16:
    return BFloat16Type::get(context);
  case ProductType::f16:
    return Float16Type::get(context);
  }
  llvm_unreachable("all are listed");
}

Value CastBelowViews::castOf(Value root) {
  // A 16-bit number that was widened comes back as itself.
  auto widened = root.getDefiningOp<CastOp>();
  if (widened && tensorType(widened.getX()).getElementType() == element && tensorType(root).getElementType().isF32())
    return widened.getX();
  OpBuilder builder(root.getContext());
  builder.setInsertionPointAfterValue(root);
  return CastOp::create(builder, root.getLoc(), tensorType(root).clone(element), root);
}

Value CastBelowViews::operator()(Value value) {
  SmallVector<Operation *> views; // from the value down; chains can be long
  Operation *op = value.getDefiningOp();
  while (op && op->hasTrait<ViewOp>() && op->getNumOperands() == 1 && !known.contains(value)) {
    views.push_back(op);
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  Value &root = known[value];
  if (!root)
    root = castOf(value);
  Value result = root;
  for (Operation *view : llvm::reverse(views)) {
    Operation *repeated = OpBuilder(view).clone(*view);
    repeated->setOperand(0, result);
    repeated->getResult(0).setType(tensorType(view->getResult(0)).clone(element));
    result = known[view->getResult(0)] = repeated->getResult(0);
  }
  return result;
}

bool isCastTo(Operation *op, Type element) {
  return isa<CastOp>(op) && tensorType(op->getResult(0)).getElementType() == element;
}

void narrowResult(MatmulOp product, Type narrow) {
  Value result = product.getResult();
  Type wide = result.getType();
  bool follows = tensorType(product.getA()).getElementType() == narrow;
  product.setDtypeAttr(follows ? TypeAttr() : TypeAttr::get(narrow));
  result.setType(tensorType(result).clone(narrow));
  readNarrow(result, result, wide);
}

void readNarrow(Value value, Value stored, Type wide) {
  Type element = tensorType(stored).getElementType();
  CastOp widened;
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
    Operation *user = use.getOwner();
    if (user == stored.getDefiningOp() || user == widened)
      continue;
    if (isCastTo(user, element)) {
      user->getResult(0).replaceAllUsesWith(stored);
      user->erase();
      continue;
    }
    if (!widened) {
      OpBuilder builder(stored.getContext());
      builder.setInsertionPointAfterValue(stored);
      widened = CastOp::create(builder, stored.getLoc(), wide, stored);
    }
    use.set(widened);
  }
}

} // namespace tcc
