// A matmul times the slope of GELU, which a library can apply to the sums before it rounds them.
#include "ir/ops/expansion.h"
#include "ir/ops/shapes.h"

using namespace mlir;

namespace tcc {

LogicalResult MatmulGeluGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                     SmallVectorImpl<Type> &types) {
  RankedTensorType a = tensorType(adaptor.getA()), b = tensorType(adaptor.getB()), x = tensorType(adaptor.getX());
  bool transposed = adaptor.getTransposeB();
  bool fits = a.getRank() == 2 && b.getRank() == 2 && x.getRank() == 2 && a.getElementType() == b.getElementType() &&
              x.getElementType() == a.getElementType() && sameSize(a.getDimSize(1), b.getDimSize(transposed ? 1 : 0)) &&
              sameSize(x.getDimSize(0), a.getDimSize(0)) && sameSize(x.getDimSize(1), b.getDimSize(transposed ? 0 : 1));
  if (!fits)
    return emitOptionalError(loc, "'tcc.matmul_gelu_gradient' a is ", typeText(a), ", b ", typeText(b),
                             transposed ? " transposed" : "", ", x ", typeText(x),
                             "; a [M, K] needs b [K, N] and x [M, N] of its element type (matmul_gelu_gradient_c1)");
  types.push_back(x);
  return success();
}

SmallVector<Value> MatmulGeluGradientOp::expand(Emit &b) {
  Value sums = b.matmul(getA(), getB(), false, getTransposeB(), b.f32());
  Value slopes = b.geluGradient(b.cast(getX(), b.f32()), sums);
  return {b.cast(slopes, tensorType(getX()).getElementType())};
}

SmallVector<Value> MatmulGeluGradientOp::gradient(Emit &b, ValueRange dResults) {
  return gradientOfExpansion(b, *this, dResults);
}

/// x is read as it lies, whatever its shape: rows of a batch are rows of the matrix.
SmallVector<StridedView, 2> MatmulGeluGradientOp::operandViews(const ViewLimits &limits) {
  auto strided = [](const MatrixView &matrix) {
    return StridedView{
        matrix.root, matrix.offset, {matrix.rows, matrix.columns}, {matrix.rowStride, matrix.columnStride}};
  };
  MatmulViews views = matmulViews(*this, limits);
  StridedView x = stridedView(getX());
  return {strided(views.a), strided(views.b), isDense(x) ? x : denseView(getX())};
}

int64_t MatmulGeluGradientOp::flops() {
  return 2 * tensorType(getA()).getDimSize(1) * tensorType(getResult()).getNumElements();
}

} // namespace tcc
