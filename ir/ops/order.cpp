// Order along an axis: sort. An element's place in the order is the number of elements before it, which one row
// reduction counts on every target: work of the square of the axis's size, without a chain of stages.
#include "ir/emit.h"
#include <limits>

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t longestSorted = 65536;

/// For each element of rows [rows, size] how many elements of its row come before it, i32.
Value countBefore(Emit &b, Value rows, bool descending) {
  ArrayRef<int64_t> shape = tensorType(rows).getShape();
  const int64_t count = shape[0], size = shape[1], cube[] = {count, size, size};
  Value one = b.broadcast(b.reshape(rows, {count, size, 1}), cube);
  Value other = b.broadcast(b.reshape(rows, {count, 1, size}), cube);
  Value isBefore = b.compare(descending ? Predicate::gt : Predicate::lt, other, one);
  Value isSame = b.compare(Predicate::eq, other, one);
  if (isa<FloatType>(tensorType(rows).getElementType())) {
    Value oneNan = b.compare(Predicate::ne, one, one), otherNan = b.compare(Predicate::ne, other, other);
    isBefore = b.logicalOr(isBefore, descending ? b.logicalAnd(otherNan, b.logicalNot(oneNan))
                                                : b.logicalAnd(oneNan, b.logicalNot(otherNan)));
    isSame = b.logicalOr(isSame, b.logicalAnd(oneNan, otherNan));
  }
  Value isEarlier = b.compare(Predicate::lt, b.iota(2, cube, b.i32()), b.iota(1, cube, b.i32()));
  isBefore = b.logicalOr(isBefore, b.logicalAnd(isSame, isEarlier));
  return b.reshape(b.reduceSum(b.cast(isBefore, b.i32()), {2}), {count, size});
}

} // namespace

//===- sort ----------------------------------------------------------------------------------------------------===//

LogicalResult SortOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  const int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= type.getRank())
    return emitOptionalError(loc, "'tcc.sort' axis ", axis, " is outside rank ", type.getRank(), " (sort_c1)");
  if (int64_t size = type.getDimSize(axis); ShapedType::isDynamic(size) || size > longestSorted)
    return emitOptionalError(loc, "'tcc.sort' axis of size ",
                             ShapedType::isDynamic(size) ? std::string("?") : std::to_string(size), "; at most ",
                             longestSorted, " elements are sorted (sort_c2)");
  types.push_back(type);
  types.push_back(withElement(type, IntegerType::get(context, 32)));
  return success();
}

// Values are gathered, so that their gradient is a sum into the places; places are exact in f32.
SmallVector<Value> SortOp::decompose(Emit &b) {
  RankedTensorType type = tensorType(getX());
  const int64_t axis = getAxis(), size = type.getDimSize(axis), last = type.getRank() - 1;
  if (type.getNumElements() == 0 || size == 1)
    return {getX(), b.zeros(withElement(type, b.i32()))};
  SmallVector<int64_t> swapped = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  std::swap(swapped[axis], swapped[last]);
  Value moved = b.transpose(getX(), swapped);
  const int64_t count = type.getNumElements() / size;
  Value rows = b.reshape(moved, {count, size});
  Type index = b.builder.getIntegerType(type.getNumElements() > std::numeric_limits<int32_t>::max() ? 64 : 32);
  Value first = b.mul(b.iota(0, {count, size}, index), static_cast<double>(size));
  Value rank = b.add(first, b.cast(countBefore(b, b.detach(rows), getDescending()), index));
  Value place = b.cast(b.iota(1, {count, size}, b.i32()), b.f32());
  Value nowhere = b.zeros(RankedTensorType::get({count * size}, b.f32()));
  Value places = b.cast(b.reshape(b.create<ScatterAddOp>(nowhere, rank, place), {count, size}), b.i32());
  Value values = b.create<GatherOp>(b.reshape(rows, {count * size}), b.add(first, b.cast(places, index)));
  auto back = [&](Value x) { return b.transpose(b.reshape(x, tensorType(moved).getShape()), swapped); };
  return {back(values), back(places)};
}

} // namespace tcc
