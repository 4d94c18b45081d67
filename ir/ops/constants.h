// Helpers for folding: they ask what an attribute holds, and fold splats.
#pragma once
#include "ir/dialect.h"
#include <functional>

namespace tcc {

/// True if `attr` is a splat of floats with exactly this value (the sign of zero counts).
bool isSplat(mlir::Attribute attr, double value);
/// True if `attr` is a splat of integers (i1 included, as 0 and 1) with this value.
bool isSplatInteger(mlir::Attribute attr, int64_t value);

/// Folds two float splats of one type. `apply` computes in f64, and its result is rounded once; for + - · / of operands
/// of at most 32 bits that equals the rounding of the exact result. Gives null if the operands cannot be folded.
mlir::OpFoldResult foldBinary(mlir::Attribute lhs, mlir::Attribute rhs,
                              llvm::function_ref<double(double, double)> apply);

/// Folds the conversion of a splat to another float element type.
mlir::OpFoldResult foldCast(mlir::Attribute x, mlir::RankedTensorType type);

/// The splat of the same value under another shape, for views of literals.
mlir::OpFoldResult foldSplatView(mlir::Attribute x, mlir::RankedTensorType type);

} // namespace tcc
