// The functions of Emit that do more than create one op.
#include "ir/emit.h"

using namespace mlir;

namespace tcc {

RankedTensorType withShape(RankedTensorType type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}

RankedTensorType withElement(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element);
}

DenseElementsAttr splatOf(RankedTensorType type, double value) {
  Type element = type.getElementType();
  auto floatType = dyn_cast<FloatType>(element);
  if (!floatType)
    return SplatElementsAttr::get(type, ArrayRef<Attribute>(IntegerAttr::get(element, static_cast<int64_t>(value))));
  APFloat number(value);
  bool lossy = false;
  number.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return DenseElementsAttr::get(type, number);
}

Value Emit::constant(double value, RankedTensorType type) {
  return ConstantOp::create(builder, loc, splatOf(type, value));
}

Value Emit::iota(int64_t dim, ArrayRef<int64_t> shape, Type element) {
  return IotaOp::create(builder, loc, RankedTensorType::get(shape, element), dim, Value());
}

Value Emit::compare(Predicate predicate, Value a, Value b) {
  return CompareOp::create(builder, loc, predicate, a, b);
}

Value Emit::cast(Value x, Type element) {
  RankedTensorType type = tensorType(x);
  if (type.getElementType() == element)
    return x;
  return CastOp::create(builder, loc, withElement(type, element), x);
}

Value Emit::broadcast(Value x, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorType(x);
  if (type.getShape() == shape)
    return x;
  return BroadcastOp::create(builder, loc, withShape(type, shape), x, Value());
}

Value Emit::reshape(Value x, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorType(x);
  if (type.getShape() == shape)
    return x;
  return ReshapeOp::create(builder, loc, withShape(type, shape), x, Value());
}

Value Emit::transpose(Value x, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, dim] : llvm::enumerate(permutation))
    identity &= dim == static_cast<int64_t>(i);
  return identity ? x : create<TransposeOp>(x, permutation);
}

Value Emit::slice(Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits) {
  if (llvm::all_of(starts, [](int64_t start) { return start == 0; }) && tensorType(x).getShape() == limits)
    return x;
  return create<SliceOp>(x, starts, limits);
}

Value Emit::spread(Value x, int64_t dim, int64_t step) {
  SmallVector<int64_t> shape(tensorType(x).getShape());
  const int64_t count = shape[dim];
  if (step == 1 || count <= 1)
    return x;
  SmallVector<int64_t> split(shape), low(shape.size() + 1, 0), high(shape.size() + 1, 0);
  split.insert(split.begin() + dim + 1, 1);
  high[dim + 1] = step - 1;
  x = pad(reshape(x, split), low, high);
  shape[dim] = count * step;
  x = reshape(x, shape);
  shape[dim] = (count - 1) * step + 1;
  return slice(x, SmallVector<int64_t>(shape.size(), 0), shape);
}

Value Emit::pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, double value) {
  auto zero = [](int64_t count) { return count == 0; };
  if (llvm::all_of(low, zero) && llvm::all_of(high, zero))
    return x;
  return PadOp::create(builder, loc, x, low, high, APFloat(value));
}

Value Emit::reduceSum(Value x, ArrayRef<int64_t> axes) {
  return axes.empty() ? x : create<ReduceSumOp>(x, axes);
}

Value Emit::reduceMax(Value x, ArrayRef<int64_t> axes) {
  return axes.empty() ? x : create<ReduceMaxOp>(x, axes);
}

Value Emit::sumTo(Value x, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = tensorType(x).getShape();
  int64_t leading = from.size() - shape.size();
  SmallVector<int64_t> axes;
  for (int64_t i = 0, e = from.size(); i < e; ++i)
    if (i < leading || shape[i - leading] != from[i])
      axes.push_back(i);
  return reshape(reduceSum(x, axes), shape);
}

Value Emit::matmul(Value a, Value b, bool transposeA, bool transposeB, Type dtype) {
  TypeAttr attr = dtype && dtype != tensorType(a).getElementType() ? TypeAttr::get(dtype) : TypeAttr();
  return create<MatmulOp>(a, b, Value(), Value(), transposeA, transposeB, attr);
}

} // namespace tcc
