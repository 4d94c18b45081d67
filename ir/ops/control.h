// What passes and tests need of cond and repeat beyond their declarations.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// Whether the block ends with a tcc.yield of values of these types.
bool yields(mlir::Block &block, mlir::TypeRange types);

/// The turns of a loop written out, at the builder's place, on other values of the operands; gives the last results.
llvm::SmallVector<mlir::Value> unrolled(Emit &b, RepeatOp op, mlir::ValueRange operands);

} // namespace tcc
