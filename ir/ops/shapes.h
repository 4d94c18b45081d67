// Shape rules that several op families share.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Equal, or at least one of them unknown.
inline bool sameSize(int64_t a, int64_t b) {
  return a == b || mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b);
}

/// The static shape of a reshape whose operand was `from` (perhaps with `?`) and is now `actual`: the last `?` of `to`
/// follows from the element count, those before it stand in the common prefix of `from` and `to` and are the same dims.
/// Nothing if that does not determine it; sizes stay `?` where `actual` has one.
std::optional<llvm::SmallVector<int64_t>> resolveReshape(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                                         llvm::ArrayRef<int64_t> actual);

/// Checks that a result with `?` has a `like` of its rank and compatible sizes; `label` names the constraint.
mlir::LogicalResult verifyLike(mlir::Operation *op, mlir::Value like, mlir::RankedTensorType result,
                               llvm::StringRef label);

/// Checks that a shape whose random bits begin at `first` (null: none) has a dim 0.
mlir::LogicalResult verifyFirst(mlir::Operation *op, mlir::Value first, mlir::RankedTensorType shape,
                                llvm::StringRef label);

} // namespace tcc
