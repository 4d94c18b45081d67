// Strided views: how a value read through transposes, slices and reshapes lies in the memory of the value below them.
// Matrix products take such operands as they are, without a copy.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Element (i, j, …) of the view is element offset + i·strides[0] + j·strides[1] + … of the dense value `root`.
struct StridedView {
  mlir::Value root;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes, strides;
};

/// Follows view ops downwards as long as the access stays strided; `root` is the first value that it cannot look
/// through, perhaps `value` itself. Never fails. Static shapes only.
StridedView stridedView(mlir::Value value);

/// True if the view is its root's dense row-major order from the first element on.
bool isDense(const StridedView &view);

/// One operand of a product as [batch0, batch1, rows, columns].
struct MatrixView {
  mlir::Value root;
  int64_t offset = 0;
  int64_t batch[2] = {1, 1};
  int64_t batchStride[2] = {0, 0};
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
};

/// The operands of a matmul as the library takes them: one of the two matrix strides is 1 and at most two batch dims
/// remain. Where an operand cannot be had so, its `root` is the operand itself, dense, which then must be in memory.
struct MatmulViews {
  MatrixView a, b; // a is rows = M, columns = K after transpose_a; b is rows = K, columns = N after transpose_b
};
MatmulViews matmulViews(MatmulOp op);

} // namespace tcc
