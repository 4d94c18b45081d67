// The rules of the ops item and print.
#include "ir/host_ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/HostOps.cpp.inc"

namespace tcc {

LogicalResult ItemOp::verify() {
  if (isa<BodyOpInterface, CustomOp>((*this)->getParentOp()))
    return emitOpError("stands in a body of another op; the host asks for values of the function itself (item_c2)");
  RankedTensorType type = tensorType(getX());
  if (!type.hasStaticShape() || type.getNumElements() != 1)
    return emitOpError() << "of " << typeText(type) << "; the host asks for exactly one element (item_c1)";
  return success();
}
Value ItemOp::scalarBody(OpBuilder &, Location, ValueRange operands, Type) {
  return operands[0];
}

LogicalResult PrintOp::verify() {
  if (!isa<func::FuncOp>((*this)->getParentOp()))
    return emitOpError("stands in a region of another op; a value is printed by the function itself (print_c1)");
  if (getName().empty() || getName().contains('\n'))
    return emitOpError("needs a name of one line to print (print_c2)");
  return success();
}

} // namespace tcc
