// StridedView: says where the elements of a value that is made by transposes, slices and reshapes lie in the memory of
// the value below these views. Matmuls take such operands as they are, without a copy.
#pragma once
#include "mlir/IR/Operation.h"
#include <optional>

namespace tcc {
class MatmulOp;
class MatmulGeluGradientOp;

/// Where a view finds its elements along one dim of its operand: at coordinate offset + stride · (the result's
/// coordinate along `dim`), or at the offset alone where no coordinate of the result matters. In a window there is a
/// second coordinate, along `inner`, which counts with its own stride.
struct ViewedDim {
  std::optional<unsigned> dim;
  int64_t offset = 0, stride = 1;
  std::optional<unsigned> inner = std::nullopt;
  int64_t innerStride = 1;
};

/// Which strided operands a target's matmuls and other structured ops can read. They can always read a single matrix
/// that is dense along one side.
struct ViewLimits {
  int64_t batchDims = 0; // leading dims with strides of their own
};

/// Element (i, j, …) of the view is element offset + i·strides[0] + j·strides[1] + … of the dense value `root`.
struct StridedView {
  mlir::Value root;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes, strides;
};

/// Follows view ops from `value` towards their operands as long as the access stays strided. `root` is the first value
/// that is not such a view, perhaps `value` itself. It never fails. Shapes must be static.
StridedView stridedView(mlir::Value value);

/// `value` as it lies in memory.
StridedView denseView(mlir::Value value);

/// Whether the view reads its root densely in row-major order from the first element on.
bool isDense(const StridedView &view);

/// How many elements lie between the first and the last that the view reaches, both included.
int64_t spanOf(const StridedView &view);

/// The views of an op that reads each operand as a dense tensor in memory.
llvm::SmallVector<StridedView, 2> denseOperands(mlir::Operation *op);

/// The least bytes that an op moves: it reads the span of each view once and writes its results.
int64_t bytesOfViews(mlir::Operation *op, llvm::ArrayRef<StridedView> views);

/// The values that an op outside kernels needs in memory, aligned with its operands: the roots of a structured op's
/// views, and the roots of the dense views that a return hands out. Empty for every other op.
llvm::SmallVector<mlir::Value> memoryOperands(mlir::Operation *op, const ViewLimits &limits);

/// The value whose memory holds `value` densely from its start: the root of a dense view, else `value` itself.
mlir::Value denseRoot(mlir::Value value);

/// One operand of a matmul as [batch0, batch1, rows, columns].
struct MatrixView {
  mlir::Value root;
  int64_t offset = 0;
  int64_t batch[2] = {1, 1};
  int64_t batchStride[2] = {0, 0};
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
};

/// The operands of a matmul as libraries take them: one of the two matrix strides is 1, and there are at most as many
/// batch dims as the limits say (no more than two). If an operand has no such view, its `root` is the operand itself,
/// dense, and must be in memory.
struct MatmulViews {
  MatrixView a, b; // a is rows = M, columns = K after transpose_a; b is rows = K, columns = N after transpose_b
};
MatmulViews matmulViews(MatmulOp op, const ViewLimits &limits);
MatmulViews matmulViews(MatmulGeluGradientOp op, const ViewLimits &limits);

} // namespace tcc
