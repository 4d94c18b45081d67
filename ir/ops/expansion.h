// Gradients of ops that say what they are in terms of others.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// The gradients with respect to the op's operands, aligned with them, as those of what `expand` writes in its place:
/// a tcc.gradient, which autodiff expands like any other.
llvm::SmallVector<mlir::Value> gradientOfExpansion(Emit &b, ExpandableOpInterface op, mlir::ValueRange dResults);

} // namespace tcc
