// Reductions: sum and max over axes, which stay as size 1.
#include "ir/emit.h"
#include <limits>

using namespace mlir;

namespace tcc {
namespace {

LogicalResult inferReduction(StringRef name, std::optional<Location> loc, Value x, ArrayRef<int64_t> axes,
                             SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(x);
  SmallVector<int64_t> shape(type.getShape());
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (axis <= previous || axis >= type.getRank())
      return emitOptionalError(loc, "'", name, "' axes must ascend within 0..", type.getRank() - 1, " (reduce_c1)");
    shape[axis] = 1;
    previous = axis;
  }
  types.push_back(withShape(type, shape));
  return success();
}

} // namespace

LogicalResult ReduceSumOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  return inferReduction("tcc.reduce_sum", loc, adaptor.getX(), adaptor.getAxes(), types);
}
OpFoldResult ReduceSumOp::fold(FoldAdaptor) {
  return getAxes().empty() ? getX() : Value();
}
SmallVector<Value> ReduceSumOp::gradient(Emit &b, ValueRange dy) {
  return {b.broadcast(dy[0], tensorType(getX()).getShape())};
}

LogicalResult ReduceMaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  return inferReduction("tcc.reduce_max", loc, adaptor.getX(), adaptor.getAxes(), types);
}
OpFoldResult ReduceMaxOp::fold(FoldAdaptor) {
  return getAxes().empty() ? getX() : Value();
}
SmallVector<Value> ReduceMaxOp::gradient(Emit &b, ValueRange dy) {
  ArrayRef<int64_t> shape = tensorType(getX()).getShape();
  Value isMax = b.compare(Predicate::eq, getX(), b.broadcast(getResult(), shape));
  Value ones = b.cast(isMax, tensorType(getX()).getElementType());
  Value share = b.div(dy[0], b.reduceSum(ones, getAxes()));
  // A NaN is the row's maximum, but equals nothing: the whole row gets it.
  RankedTensorType rows = tensorType(getResult());
  Value isNan = b.compare(Predicate::ne, getResult(), getResult());
  Value others = b.select(isNan, b.constant(std::numeric_limits<double>::quiet_NaN(), rows), b.zeros(rows));
  return {b.select(isMax, b.broadcast(share, shape), b.broadcast(others, shape))};
}

} // namespace tcc
