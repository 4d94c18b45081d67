// Functions on cond and repeat that passes and tests need.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// Whether the block ends with a tcc.yield of values of these types.
bool yields(mlir::Block &block, mlir::TypeRange types);

/// Writes the turns of a loop out at the builder's place, with `operands` in place of its own, and gives the last
/// turn's results.
llvm::SmallVector<mlir::Value> unrolled(Emit &b, RepeatOp op, mlir::ValueRange operands);

/// sharedBuffers of an op whose result i may stand where its operand i stands.
llvm::BitVector sharedPairs(mlir::Operation *op);

/// Every operand as a dense tensor in memory.
llvm::SmallVector<StridedView, 2> denseOperands(mlir::Operation *op);

} // namespace tcc
