// The op matmul: its rules, its gradient, the strides by which it reads its operands, and its form without bias and
// addend.
#include "ir/emit.h"
#include "ir/ops/shapes.h"

using namespace mlir;

namespace tcc {

static LogicalResult checkEpilogue(std::optional<Location> loc, Value bias, Value addend, Type element,
                                   RankedTensorType result) {
  if (bias) {
    RankedTensorType type = tensorType(bias);
    Type own = type.getElementType();
    if (type.getRank() != 1 || !sameSize(type.getDimSize(0), result.getShape().back()) ||
        !(own.isF32() || own == element || own == result.getElementType()))
      return emitOptionalError(loc, "'tcc.matmul' bias is ", typeText(type), "; ", result.getShape().back(),
                               " elements of f32, of a's type or of the result's are expected (matmul_c6)");
  }
  if (addend && (tensorType(addend).getElementType() != result.getElementType() ||
                 failed(verifyCompatibleShape(addend.getType(), result))))
    return emitOptionalError(loc, "'tcc.matmul' addend is ", typeText(tensorType(addend)), " and the result ",
                             typeText(result), "; they have one type (matmul_c7)");
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType a = tensorType(adaptor.getA()), b = tensorType(adaptor.getB());
  if (a.getRank() < 2 || b.getRank() < 2)
    return emitOptionalError(loc, "'tcc.matmul' operands have ranks ", a.getRank(), " and ", b.getRank(),
                             "; both need at least 2 (matmul_c5)");
  if (a.getElementType() != b.getElementType())
    return emitOptionalError(loc, "'tcc.matmul' operand types ", a.getElementType(), " and ", b.getElementType(),
                             " differ (matmul_c4)");
  bool transposeA = adaptor.getTransposeA(), transposeB = adaptor.getTransposeB();
  auto size = [](RankedTensorType type, bool transposed, int64_t fromEnd) {
    return type.getDimSize(type.getRank() - (transposed ? 3 - fromEnd : fromEnd));
  };
  int64_t ka = size(a, transposeA, 1), kb = size(b, transposeB, 2);
  if (!sameSize(ka, kb))
    return emitOptionalError(loc, "'tcc.matmul' contraction sizes ", ka, " and ", kb, " differ (matmul_c1)");
  SmallVector<int64_t> shape(a.getShape().drop_back(2));
  if (b.getRank() > 2) {
    ArrayRef<int64_t> other = b.getShape().drop_back(2);
    bool equal = other.size() == shape.size();
    for (size_t i = 0; equal && i < shape.size(); ++i)
      equal = sameSize(shape[i], other[i]);
    if (!equal)
      return emitOptionalError(loc, "'tcc.matmul' batch sizes of ", typeText(a), " and ", typeText(b),
                               " differ (matmul_c2)");
  } else if (transposeA && !shape.empty()) {
    return emitOptionalError(loc, "'tcc.matmul' of a transposed batch ", typeText(a), " by one matrix ", typeText(b),
                             " (matmul_c3)");
  }
  shape.push_back(size(a, transposeA, 2));
  shape.push_back(size(b, transposeB, 1));
  Type element = adaptor.getDtype() ? *adaptor.getDtype() : a.getElementType();
  if (element != a.getElementType() && !element.isF32())
    return emitOptionalError(loc, "'tcc.matmul' of ", a.getElementType(), " into ", element,
                             "; the result is of a's type or f32 (matmul_c8)");
  auto result = RankedTensorType::get(shape, element);
  if (failed(checkEpilogue(loc, adaptor.getBias(), adaptor.getAddend(), a.getElementType(), result)))
    return failure();
  types.push_back(result);
  return success();
}

Value MatmulOp::withoutEpilogue(Emit &e) {
  RankedTensorType type = tensorType(getResult());
  Value sum = e.matmul(getA(), getB(), getTransposeA(), getTransposeB(), e.f32());
  if (getBias())
    sum = e.add(sum, e.broadcast(e.cast(getBias(), e.f32()), type.getShape()));
  if (getAddend())
    sum = e.add(sum, e.cast(getAddend(), e.f32()));
  return e.cast(sum, type.getElementType());
}

SmallVector<Value> MatmulOp::gradient(Emit &e, ValueRange dResults) {
  Value a = getA(), b = getB();
  bool ta = getTransposeA(), tb = getTransposeB();
  Type element = tensorType(a).getElementType();
  Value dy = e.cast(dResults[0], element);
  // Where a is batched and b is one matrix, the rows of all of a's matrices are multiplied as one matrix.
  bool flatten = tensorType(a).getRank() > 2 && tensorType(b).getRank() == 2;
  SmallVector<int64_t> shapeOfA(tensorType(a).getShape());
  if (flatten) {
    auto asMatrix = [&](Value x) {
      RankedTensorType type = tensorType(x);
      int64_t columns = type.getShape().back(), rows = 1;
      for (int64_t size : type.getShape().drop_back())
        rows *= size;
      return e.reshape(x, {rows, columns});
    };
    a = asMatrix(a);
    dy = asMatrix(dy);
  }
  Value da = ta ? e.matmul(b, dy, tb, true) : e.matmul(dy, b, false, !tb);
  Value db = tb ? e.matmul(dy, a, true, ta) : e.matmul(a, dy, !ta, false);
  SmallVector<Value> gradients{flatten ? e.reshape(da, shapeOfA) : da, db};
  if (Value bias = getBias()) {
    RankedTensorType type = tensorType(bias);
    gradients.push_back(e.cast(e.sumTo(e.cast(dResults[0], e.f32()), type.getShape()), type.getElementType()));
  }
  if (getAddend())
    gradients.push_back(dResults[0]);
  return gradients;
}

bool MatmulOp::narrows(unsigned operand) {
  return operand < 2; // bias and addend are added to the sum in f32 and keep their types
}

void MatmulOp::keepResultType() {
  setDtype(tensorType(getResult()).getElementType());
}

SmallVector<StridedView, 2> MatmulOp::operandViews(const ViewLimits &limits) {
  auto strided = [](const MatrixView &matrix) {
    return StridedView{matrix.root,
                       matrix.offset,
                       {matrix.batch[0], matrix.batch[1], matrix.rows, matrix.columns},
                       {matrix.batchStride[0], matrix.batchStride[1], matrix.rowStride, matrix.columnStride}};
  };
  MatmulViews views = matmulViews(*this, limits);
  SmallVector<StridedView, 2> list{strided(views.a), strided(views.b)};
  for (Value added : getOperands().drop_front(2)) {
    StridedView view = stridedView(added);
    list.push_back(isDense(view) ? view : denseView(added));
  }
  return list;
}

/// The result may take the addend's buffer: an element of the addend is read only for the element of the result in the
/// same place, and before that is written.
llvm::BitVector MatmulOp::sharedBuffers() {
  llvm::BitVector shared(getNumOperands());
  if (getAddend())
    shared.set(getNumOperands() - 1);
  return shared;
}

bool MatmulOp::writesSlices(unsigned) {
  return true; // a slice's rows are further apart than they are long, which matmuls can write
}

int64_t MatmulOp::flops() {
  RankedTensorType a = tensorType(getA());
  int64_t k = a.getDimSize(a.getRank() - (getTransposeA() ? 2 : 1));
  return 2 * k * tensorType(getResult()).getNumElements();
}

} // namespace tcc
