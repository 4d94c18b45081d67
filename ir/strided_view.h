// Strided views: how a value read through transposes, slices and reshapes lies in the memory of the value below them.
// Matrix products take such operands as they are, without a copy.
#pragma once
#include "mlir/IR/Operation.h"
#include <optional>

namespace tcc {
class MatmulOp;
class MatmulGeluGradientOp;

/// Along a dim of a view's operand the element's coordinate is offset + stride · the result's coordinate `dim`, or the
/// offset alone where it follows from none.
struct ViewedDim {
  std::optional<unsigned> dim;
  int64_t offset = 0, stride = 1;
};

/// What a target's products and other structured ops can read beyond one matrix that is dense along one side.
struct ViewLimits {
  int64_t batchDims = 0; // leading dims with strides of their own
};

/// Element (i, j, …) of the view is element offset + i·strides[0] + j·strides[1] + … of the dense value `root`.
struct StridedView {
  mlir::Value root;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes, strides;
};

/// Follows view ops downwards as long as the access stays strided; `root` is the first value that it cannot look
/// through, perhaps `value` itself. Never fails. Static shapes only.
StridedView stridedView(mlir::Value value);

/// `value` as it lies in memory.
StridedView denseView(mlir::Value value);

/// True if the view is its root's dense row-major order from the first element on.
bool isDense(const StridedView &view);

/// Elements from the first to the last that the view reaches, both included.
int64_t spanOf(const StridedView &view);

/// Bytes that an op moves at least: each view's span once, and its results.
int64_t bytesOfViews(mlir::Operation *op, llvm::ArrayRef<StridedView> views);

/// The values that an op outside of kernels needs in memory, aligned with its operands: the roots of a structured op's
/// views, and of the dense views that a return gives out. Empty for every other op.
llvm::SmallVector<mlir::Value> memoryOperands(mlir::Operation *op, const ViewLimits &limits);

/// The value whose memory, read densely from its start, is `value`: `value` itself unless it is such a view.
mlir::Value denseRoot(mlir::Value value);

/// One operand of a product as [batch0, batch1, rows, columns].
struct MatrixView {
  mlir::Value root;
  int64_t offset = 0;
  int64_t batch[2] = {1, 1};
  int64_t batchStride[2] = {0, 0};
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
};

/// The operands of a matmul as libraries take them: one of the two matrix strides is 1, and of batch dims remain at
/// most the limit (no more than two). Where an operand cannot be had so, its `root` is the operand itself, dense, which
/// then must be in memory.
struct MatmulViews {
  MatrixView a, b; // a is rows = M, columns = K after transpose_a; b is rows = K, columns = N after transpose_b
};
MatmulViews matmulViews(MatmulOp op, const ViewLimits &limits);
MatmulViews matmulViews(MatmulGeluGradientOp op, const ViewLimits &limits);

} // namespace tcc
