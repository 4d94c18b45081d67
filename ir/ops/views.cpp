// Views: broadcast, reshape, transpose, slice, pad, concat. Per op inference, verifier, folding, gradient.
#include "ir/emit.h"
#include "ir/ops/constants.h"
#include "ir/ops/numbers.h"
#include "ir/ops/shapes.h"
#include <cmath>

using namespace mlir;

namespace tcc {

//===- broadcast -----------------------------------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getResult());
  if (from.getElementType() != to.getElementType())
    return emitOpError() << "changes the element type from " << from.getElementType() << " to " << to.getElementType();
  if (from.getRank() > to.getRank())
    return emitOpError() << "result rank " << to.getRank() << " is below the operand's rank " << from.getRank()
                         << " (broadcast_c1)";
  int64_t leading = to.getRank() - from.getRank();
  for (int64_t i = 0; i < from.getRank(); ++i) {
    int64_t size = from.getDimSize(i), target = to.getDimSize(i + leading);
    if (size != 1 && !sameSize(size, target))
      return emitOpError() << "operand size " << size << " of dim " << i << " is neither 1 nor the result's " << target
                           << " (broadcast_c2)";
  }
  return verifyLike(*this, getLike(), to, "broadcast_c3");
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType() && tensorType(getResult()).hasStaticShape())
    return getX();
  return foldSplatView(adaptor.getX(), tensorType(getResult()));
}

std::optional<SmallVector<ViewedDim>> BroadcastOp::viewedDims() {
  ArrayRef<int64_t> from = tensorType(getX()).getShape();
  const unsigned leading = tensorType(getResult()).getRank() - from.size();
  SmallVector<ViewedDim> dims(from.size());
  for (auto [i, size] : llvm::enumerate(from))
    if (size != 1)
      dims[i].dim = leading + i;
  return dims;
}

SmallVector<Value> BroadcastOp::gradient(Emit &b, ValueRange dy) {
  return {b.sumTo(dy[0], tensorType(getX()).getShape()), Value()};
}

//===- reshape -------------------------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getResult());
  if (from.getElementType() != to.getElementType())
    return emitOpError() << "changes the element type from " << from.getElementType() << " to " << to.getElementType();
  if (from.hasStaticShape() && to.hasStaticShape() && from.getNumElements() != to.getNumElements())
    return emitOpError() << typeText(from) << " has " << from.getNumElements() << " elements and " << typeText(to)
                         << " has " << to.getNumElements() << " (reshape_c1)";
  if (!getLike() && !resolveReshape(from.getShape(), to.getShape(), from.getShape())) {
    if (to.getNumDynamicDims() == 1)
      return emitOpError() << "cannot make " << typeText(to) << " of the " << from.getNumElements() << " elements of "
                           << typeText(from) << " (reshape_c1)";
    return emitOpError() << "more than one '?' of " << typeText(to) << " cannot be derived from " << typeText(from)
                         << " (reshape_c2)";
  }
  return getLike() ? verifyLike(*this, getLike(), to, "reshape_c2") : success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (!tensorType(getResult()).hasStaticShape())
    return {};
  if (getX().getType() == getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) { // reshape(reshape(x)) = reshape(x)
    if (inner.getX().getType() == getType())
      return inner.getX();
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return foldSplatView(adaptor.getX(), tensorType(getResult()));
}

std::optional<SmallVector<ViewedDim>> ReshapeOp::viewedDims() {
  return std::nullopt;
}

SmallVector<Value> ReshapeOp::gradient(Emit &b, ValueRange dy) {
  return {b.reshape(dy[0], tensorType(getX()).getShape()), Value()};
}

//===- transpose -----------------------------------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType from = tensorType(adaptor.getX());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  SmallVector<int64_t> shape;
  SmallVector<bool> seen(from.getRank(), false);
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= from.getRank() || seen[dim])
      return emitOptionalError(loc, "'tcc.transpose' permutation is not one of 0..", from.getRank() - 1,
                               " (transpose_c1)");
    seen[dim] = true;
    shape.push_back(from.getDimSize(dim));
  }
  if (static_cast<int64_t>(permutation.size()) != from.getRank())
    return emitOptionalError(loc, "'tcc.transpose' permutation has ", permutation.size(), " entries for rank ",
                             from.getRank(), " (transpose_c1)");
  types.push_back(withShape(from, shape));
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getX();
  if (auto inner = getX().getDefiningOp<TransposeOp>()) { // transpose(transpose(x)) is one transpose
    SmallVector<int64_t> composed;
    for (int64_t dim : getPermutation())
      composed.push_back(inner.getPermutation()[dim]);
    getXMutable().assign(inner.getX());
    setPermutation(composed);
    return getResult();
  }
  return foldSplatView(adaptor.getX(), tensorType(getResult()));
}

std::optional<SmallVector<ViewedDim>> TransposeOp::viewedDims() {
  SmallVector<ViewedDim> dims(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    dims[dim].dim = i;
  return dims;
}

SmallVector<Value> TransposeOp::gradient(Emit &b, ValueRange dy) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  return {b.transpose(dy[0], inverse)};
}

//===- slice ---------------------------------------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  RankedTensorType from = tensorType(adaptor.getX());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits();
  if (static_cast<int64_t>(starts.size()) != from.getRank() || starts.size() != limits.size())
    return emitOptionalError(loc, "'tcc.slice' has ", starts.size(), " starts and ", limits.size(), " limits for rank ",
                             from.getRank(), " (slice_c1)");
  ArrayRef<int64_t> steps = adaptor.getSteps();
  if ((!steps.empty() && steps.size() != starts.size()) || llvm::any_of(steps, [](int64_t step) { return step < 1; }))
    return emitOptionalError(loc, "'tcc.slice' needs a step of at least 1 for each of ", from.getRank(),
                             " dims (slice_c3)");
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < from.getRank(); ++i) {
    int64_t size = from.getDimSize(i), start = starts[i], limit = limits[i] == -1 ? size : limits[i];
    bool dynamic = ShapedType::isDynamic(size);
    if (start < 0 || (!ShapedType::isDynamic(limit) && start > limit) || (!dynamic && limit > size))
      return emitOptionalError(loc, "'tcc.slice' takes ", start, "..", limits[i], " of dim ", i, " of size ", size,
                               " (slice_c2)");
    if (dynamic && limits[i] == -1 && start != 0)
      return emitOptionalError(loc, "'tcc.slice' cuts dim ", i, " of size '?'; a '?' dim is taken whole (slice_c2)");
    int64_t step = steps.empty() ? 1 : steps[i];
    if (ShapedType::isDynamic(limit) && step != 1)
      return emitOptionalError(loc, "'tcc.slice' steps over dim ", i,
                               " of size '?'; a '?' dim is taken whole (slice_c3)");
    shape.push_back(ShapedType::isDynamic(limit) ? limit : llvm::divideCeil(limit - start, step));
  }
  types.push_back(withShape(from, shape));
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType() && tensorType(getResult()).hasStaticShape())
    return getX();
  return foldSplatView(adaptor.getX(), tensorType(getResult()));
}

std::optional<SmallVector<ViewedDim>> SliceOp::viewedDims() {
  SmallVector<ViewedDim> dims;
  for (auto [i, start] : llvm::enumerate(getStarts()))
    dims.push_back({static_cast<unsigned>(i), start, step(i)});
  return dims;
}

SmallVector<Value> SliceOp::gradient(Emit &b, ValueRange dy) {
  Value x = dy[0];
  for (auto [dim, start] : llvm::enumerate(getStarts()))
    x = b.spread(x, dim, step(dim));
  SmallVector<int64_t> high;
  for (auto [start, size, own] : llvm::zip(getStarts(), tensorType(getX()).getShape(), tensorType(x).getShape()))
    high.push_back(size - start - own);
  return {b.pad(x, getStarts(), high)};
}

//===- pad -----------------------------------------------------------------------------------------------------===//

/// Whether integers of the type have this one; floats round any number.
static bool isOfType(double value, Type element) {
  if (isa<FloatType>(element))
    return true;
  if (element.isInteger(1))
    return value == 0 || value == 1;
  const double limit = std::ldexp(1.0, static_cast<int>(element.getIntOrFloatBitWidth()) - 1);
  return value == std::trunc(value) && value >= -limit && value < limit;
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  RankedTensorType from = tensorType(adaptor.getX());
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  auto negative = [](int64_t count) { return count < 0 || count > (int64_t(1) << 40); };
  if (static_cast<int64_t>(low.size()) != from.getRank() || low.size() != high.size() || llvm::any_of(low, negative) ||
      llvm::any_of(high, negative))
    return emitOptionalError(loc, "'tcc.pad' needs one low and one high count from 0 to 2^40 for each of ",
                             from.getRank(), " dims (pad_c1)");
  if (double value = adaptor.getValue().convertToDouble(); !isOfType(value, from.getElementType()))
    return emitOptionalError(loc, "'tcc.pad' of ", typeText(from), " has the value ", numberText(value),
                             "; it is an integer of that type (pad_c2)");
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < from.getRank(); ++i)
    shape.push_back(from.isDynamicDim(i) ? ShapedType::kDynamic : from.getDimSize(i) + low[i] + high[i]);
  types.push_back(withShape(from, shape));
  return success();
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getX().getType() == getType() && tensorType(getResult()).hasStaticShape() ? getX() : Value();
}

SmallVector<Value> PadOp::gradient(Emit &b, ValueRange dy) {
  SmallVector<int64_t> limits;
  for (auto [low, size] : llvm::zip(getLow(), tensorType(getX()).getShape()))
    limits.push_back(low + size);
  return {b.slice(dy[0], getLow(), limits)};
}

//===- concat --------------------------------------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (adaptor.getParts().empty())
    return emitOptionalError(loc, "'tcc.concat' has no operand (concat_c1)");
  RankedTensorType first = tensorType(adaptor.getParts()[0]);
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= first.getRank())
    return emitOptionalError(loc, "'tcc.concat' axis ", axis, " is outside rank ", first.getRank(), " (concat_c1)");
  SmallVector<int64_t> shape(first.getShape());
  for (Value part : adaptor.getParts().drop_front()) {
    RankedTensorType type = tensorType(part);
    bool equal = type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t i = 0; equal && i < first.getRank(); ++i)
      equal = i == axis || sameSize(type.getDimSize(i), first.getDimSize(i));
    if (!equal)
      return emitOptionalError(loc, "'tcc.concat' parts ", typeText(first), " and ", typeText(type),
                               " differ beyond axis ", axis, " (concat_c2)");
    bool dynamic = ShapedType::isDynamic(shape[axis]) || type.isDynamicDim(axis);
    shape[axis] = dynamic ? ShapedType::kDynamic : shape[axis] + type.getDimSize(axis);
  }
  types.push_back(withShape(first, shape));
  return success();
}

SmallVector<Value> ConcatOp::gradient(Emit &b, ValueRange dy) {
  SmallVector<Value> gradients;
  RankedTensorType whole = tensorType(dy[0]);
  SmallVector<int64_t> starts(whole.getRank(), 0), limits(whole.getShape());
  for (Value part : getParts()) {
    limits[getAxis()] = starts[getAxis()] + tensorType(part).getDimSize(getAxis());
    gradients.push_back(b.slice(dy[0], starts, limits));
    starts[getAxis()] = limits[getAxis()];
  }
  return gradients;
}

} // namespace tcc
