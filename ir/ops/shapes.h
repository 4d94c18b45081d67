// Shape rules that several op families share.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Whether the two sizes are equal, or at least one of them is unknown.
inline bool sameSize(int64_t a, int64_t b) {
  return a == b || mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b);
}

/// The result shape of a reshape from `from` to `to` (both perhaps with `?`) whose operand now has shape `actual`. The
/// last `?` of `to` follows from the element count. Each earlier `?` must stand in the common prefix of `from` and
/// `to`, and is the same dim of `actual`. Gives nothing if these rules do not determine the shape. Sizes stay `?` where
/// `actual` has one.
std::optional<llvm::SmallVector<int64_t>> resolveReshape(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                                         llvm::ArrayRef<int64_t> actual);

/// Checks the operand `like` from which a result takes its sizes. A result with a `?` needs one, and its rank and known
/// sizes must agree with the result's. It may be null. `label` names the constraint.
mlir::LogicalResult verifyLike(mlir::Operation *op, mlir::Value like, mlir::RankedTensorType result,
                               llvm::StringRef label);

/// Checks the operand `first` of an op with random bits, which says at which row of a larger value dim 0 of `shape`
/// begins. With it the shape must have a dim 0. It may be null: then there is nothing to check.
mlir::LogicalResult verifyFirst(mlir::Operation *op, mlir::Value first, mlir::RankedTensorType shape,
                                llvm::StringRef label);

} // namespace tcc
