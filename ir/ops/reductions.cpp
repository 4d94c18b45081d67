// Reductions: sum, maximum and product over axes, which stay as size 1; the composites beside them: minimum, the places
// of extremes, running sums and products.
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

LogicalResult ReduceProdOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  return inferReduction("tcc.reduce_prod", loc, adaptor.getX(), adaptor.getAxes(), types);
}
OpFoldResult ReduceProdOp::fold(FoldAdaptor) {
  return getAxes().empty() ? getX() : Value();
}
// The other elements' product is that of all that are not 0, divided by the element, unless one of the others is 0.
SmallVector<Value> ReduceProdOp::gradient(Emit &b, ValueRange dy) {
  Value x = b.cast(getX(), b.f32());
  RankedTensorType type = tensorType(x);
  Value isZero = b.compare(Predicate::eq, x, b.zeros(type)), one = b.constant(1, type), zero = b.zeros(type);
  Value zeros = b.broadcast(b.reduceSum(b.cast(isZero, b.f32()), getAxes()), type.getShape());
  Value others = b.select(isZero, one, x);
  Value product = b.broadcast(b.create<ReduceProdOp>(others, getAxes()), type.getShape());
  Value slope = b.select(b.compare(Predicate::eq, zeros, zero), b.div(product, others), zero);
  slope = b.select(b.logicalAnd(isZero, b.compare(Predicate::eq, zeros, one)), product, slope);
  Value wide = b.broadcast(b.cast(dy[0], b.f32()), type.getShape());
  return {b.cast(b.mul(wide, slope), tensorType(getX()).getElementType())};
}

//===- minimum, places of extremes -------------------------------------------------------------------------------===//

LogicalResult ReduceMinOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  return inferReduction("tcc.reduce_min", loc, adaptor.getX(), adaptor.getAxes(), types);
}
/// x in the opposite order: of integers each bit, which does not overflow.
static Value reversed(Emit &b, Value x) {
  return isa<FloatType>(tensorType(x).getElementType()) ? b.neg(x) : b.logicalNot(x);
}
SmallVector<Value> ReduceMinOp::decompose(Emit &b) {
  return {reversed(b, b.reduceMax(reversed(b, getX()), getAxes()))};
}

static LogicalResult inferPlace(StringRef name, std::optional<Location> loc, Value x, int64_t axis,
                                SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(x);
  if (axis < 0 || axis >= type.getRank())
    return emitOptionalError(loc, "'tcc.", name, "' axis ", axis, " is outside rank ", type.getRank(), " (", name,
                             "_c1)");
  int64_t size = type.getDimSize(axis);
  if (size == 0 || size > std::numeric_limits<int32_t>::max())
    return emitOptionalError(loc, "'tcc.", name, "' axis of size ", size, "; it has 1 to 2^31 - 1 elements (", name,
                             "_c2)");
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 1;
  types.push_back(RankedTensorType::get(shape, IntegerType::get(type.getContext(), 32)));
  return success();
}
/// The first place of the maximum of x, a NaN counting as the largest.
static Value firstMaximum(Emit &b, Value x, int64_t axis) {
  RankedTensorType type = tensorType(x);
  Value isTop = b.compare(Predicate::eq, x, b.broadcast(b.reduceMax(x, {axis}), type.getShape()));
  if (isa<FloatType>(type.getElementType()))
    isTop = b.logicalOr(isTop, b.compare(Predicate::ne, x, x));
  // The least number is the largest one counted from the end.
  auto last = static_cast<double>(type.getDimSize(axis) - 1);
  Value place = b.iota(axis, type.getShape(), b.i32());
  Value fromEnd = b.sub(b.constant(last, tensorType(place)), place);
  Value greatest = b.reduceMax(b.select(isTop, fromEnd, b.constant(-1, tensorType(place))), {axis});
  return b.sub(b.constant(last, tensorType(greatest)), greatest);
}
LogicalResult ArgmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return inferPlace("argmax", loc, adaptor.getX(), adaptor.getAxis(), types);
}
SmallVector<Value> ArgmaxOp::decompose(Emit &b) {
  return {firstMaximum(b, getX(), getAxis())};
}
LogicalResult ArgminOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return inferPlace("argmin", loc, adaptor.getX(), adaptor.getAxis(), types);
}
SmallVector<Value> ArgminOp::decompose(Emit &b) {
  return {firstMaximum(b, reversed(b, getX()), getAxis())};
}

//===- running sums and products
//-----------------------------------------------------------------------------------===//

template <typename Op>
static LogicalResult verifyRunning(Op op, StringRef label) {
  int64_t rank = tensorType(op.getX()).getRank(), axis = op.getAxis();
  if (axis < 0 || axis >= rank)
    return op.emitOpError() << "axis " << axis << " is outside rank " << rank << " (" << label << ")";
  return success();
}
/// What makes a running sum or product: its neutral number, the join of two values and the reduction of a last dim.
struct RunningKind {
  double neutral;
  Value (*join)(Emit &b, Value x, Value y);
  Value (*reduce)(Emit &b, Value x, ArrayRef<int64_t> axes);
};

/// The running values of each row of x [rows, size]: of a short row each is a reduction of the elements up to it; a
/// long one is cut into blocks, whose values are joined with the running value of the blocks before them.
static Value running(Emit &b, Value x, const RunningKind &kind) {
  constexpr int64_t longest = 64, block = 32;
  RankedTensorType type = tensorType(x);
  const int64_t rows = type.getDimSize(0), size = type.getDimSize(1);
  auto neutral = [&](int64_t columns) { return b.constant(kind.neutral, withShape(type, {rows, columns})); };
  if (size <= longest) {
    Value each = b.broadcast(b.reshape(x, {rows, 1, size}), {rows, size, size});
    Value isUpTo =
        b.compare(Predicate::le, b.iota(2, {rows, size, size}, b.i32()), b.iota(1, {rows, size, size}, b.i32()));
    Value counted = b.select(isUpTo, each, b.constant(kind.neutral, tensorType(each)));
    return b.reshape(kind.reduce(b, counted, {2}), {rows, size});
  }
  const int64_t blocks = llvm::divideCeil(size, block), missing = blocks * block - size;
  if (missing > 0)
    x = b.create<ConcatOp>(ValueRange{x, neutral(missing)}, 1);
  Value inner = running(b, b.reshape(x, {rows * blocks, block}), kind);
  Value totals = b.reshape(b.slice(inner, {0, block - 1}, {rows * blocks, block}), {rows, blocks});
  Value before = b.slice(running(b, totals, kind), {0, 0}, {rows, blocks - 1});
  before = b.reshape(b.create<ConcatOp>(ValueRange{neutral(1), before}, 1), {rows * blocks, 1});
  x = kind.join(b, inner, b.broadcast(before, {rows * blocks, block}));
  return b.slice(b.reshape(x, {rows, blocks * block}), {0, 0}, {rows, size});
}

/// Along an axis of any tensor, in f32 for floats of 16 bits.
static Value running(Emit &b, Value x, int64_t axis, const RunningKind &kind) {
  Type element = tensorType(x).getElementType();
  if (isa<FloatType>(element))
    x = b.cast(x, b.f32());
  RankedTensorType type = tensorType(x);
  if (type.getNumElements() == 0)
    return b.cast(x, element);
  SmallVector<int64_t> exchanged = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  std::swap(exchanged[axis], exchanged.back());
  Value moved = b.transpose(x, exchanged);
  const int64_t size = type.getDimSize(axis);
  Value result = running(b, b.reshape(moved, {type.getNumElements() / size, size}), kind);
  return b.cast(b.transpose(b.reshape(result, tensorType(moved).getShape()), exchanged), element);
}
LogicalResult CumsumOp::verify() {
  return verifyRunning(*this, "cumsum_c1");
}
SmallVector<Value> CumsumOp::decompose(Emit &b) {
  auto join = [](Emit &b, Value x, Value y) { return b.add(x, y); };
  auto reduce = [](Emit &b, Value x, ArrayRef<int64_t> axes) { return b.reduceSum(x, axes); };
  return {running(b, getX(), getAxis(), {0, join, reduce})};
}
LogicalResult CumprodOp::verify() {
  return verifyRunning(*this, "cumprod_c1");
}
SmallVector<Value> CumprodOp::decompose(Emit &b) {
  auto join = [](Emit &b, Value x, Value y) { return b.mul(x, y); };
  auto reduce = [](Emit &b, Value x, ArrayRef<int64_t> axes) { return b.create<ReduceProdOp>(x, axes); };
  return {running(b, getX(), getAxis(), {1, join, reduce})};
}

} // namespace tcc
