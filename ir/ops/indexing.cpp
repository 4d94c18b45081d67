// Literals, coordinates, random bits, gather and scatter-add.
#include "ir/emit.h"
#include "ir/ops/shapes.h"
#include "ir/tensor_bytes.h"

using namespace mlir;

namespace tcc {

//===- constant ------------------------------------------------------------------------------------------------===//

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  auto type = dyn_cast<RankedTensorType>(adaptor.getValue().getType());
  if (!type || !type.hasStaticShape())
    return emitOptionalError(loc, "'tcc.constant' needs a literal of a static tensor type");
  types.push_back(type);
  return success();
}
LogicalResult ConstantOp::verify() {
  constexpr int64_t limit = 1024;
  RankedTensorType type = tensorType(getResult());
  if (!isa<DenseElementsAttr>(getValue()))
    return emitOpError("needs a dense literal");
  int64_t bytes = byteSize(type);
  if (!getValue().isSplat() && bytes > limit)
    return emitOpError() << "literal of " << bytes << " bytes; a literal that is no splat holds at most " << limit
                         << " (constant_c1)";
  return success();
}
OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

//===- iota, random_bits ---------------------------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  RankedTensorType type = tensorType(getResult());
  if (getDim() >= static_cast<uint64_t>(type.getRank()))
    return emitOpError() << "dim " << static_cast<int64_t>(getDim()) << " is outside rank " << type.getRank()
                         << " (iota_c1)";
  return verifyLike(*this, getLike(), type, "iota_c2");
}

LogicalResult RandomBitsOp::verify() {
  if (failed(verifyLike(*this, getLike(), tensorType(getResult()), "random_bits_c1")))
    return failure();
  return verifyFirst(*this, getFirst(), tensorType(getResult()), "random_bits_c2");
}

//===- gather, scatter_add -------------------------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType table = tensorType(adaptor.getTable());
  if (table.getRank() < 1)
    return emitOptionalError(loc, "'tcc.gather' table is a scalar; it needs at least one dim (gather_c1)");
  SmallVector<int64_t> shape(tensorType(adaptor.getIndex()).getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(withShape(table, shape));
  return success();
}
SmallVector<Value> GatherOp::gradient(Emit &b, ValueRange dy) {
  return {b.scatterAdd(b.zeros(tensorType(getTable())), getIndex(), dy[0]), Value()};
}

LogicalResult ScatterAddOp::verify() {
  RankedTensorType base = tensorType(getBase()), rows = tensorType(getRows());
  if (base.getRank() < 1)
    return emitOpError("base is a scalar; it needs at least one dim (scatter_add_c1)");
  SmallVector<int64_t> expected(tensorType(getIndex()).getShape());
  llvm::append_range(expected, base.getShape().drop_front());
  bool fits = rows.getRank() == static_cast<int64_t>(expected.size());
  for (int64_t i = 0; fits && i < rows.getRank(); ++i)
    fits = sameSize(rows.getDimSize(i), expected[i]);
  if (!fits)
    return emitOpError() << "rows are " << typeText(rows) << "; index " << typeText(tensorType(getIndex()))
                         << " into base " << typeText(base) << " needs " << typeText(withShape(base, expected))
                         << " (scatter_add_c1)";
  if (base.getElementType() != rows.getElementType())
    return emitOpError() << "adds " << rows.getElementType() << " rows to a base of " << base.getElementType()
                         << " (scatter_add_c2)";
  return success();
}
SmallVector<Value> ScatterAddOp::gradient(Emit &b, ValueRange dy) {
  // Rows whose index is outside were dropped: their gradient is 0, not the NaN row that gather gives.
  Value picked = b.gather(dy[0], getIndex());
  RankedTensorType indexType = tensorType(getIndex());
  Value inside =
      b.logicalAnd(b.compare(Predicate::ge, getIndex(), b.zeros(indexType)),
                   b.compare(Predicate::lt, getIndex(),
                             b.constant(static_cast<double>(tensorType(getBase()).getDimSize(0)), indexType)));
  SmallVector<int64_t> aligned(indexType.getShape());
  aligned.resize(tensorType(picked).getRank(), 1);
  Value mask = b.broadcast(b.reshape(inside, aligned), tensorType(picked).getShape());
  return {dy[0], Value(), b.select(mask, picked, b.zeros(tensorType(picked)))};
}

} // namespace tcc
