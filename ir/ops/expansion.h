// gradientOfExpansion: the gradient of an op that can be written in terms of others.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// The gradients with respect to the op's operands, aligned with them: a tcc.gradient of the ops that `expand` writes,
/// which autodiff expands like any other.
llvm::SmallVector<mlir::Value> gradientOfExpansion(Emit &b, ExpandableOpInterface op, mlir::ValueRange dResults);

} // namespace tcc
