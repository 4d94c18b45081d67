// Functions for cond and repeat that passes and tests need.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// Whether the block ends with a tcc.yield of values of these types.
bool yields(mlir::Block &block, mlir::TypeRange types);

/// Writes out all turns of a loop at the builder's place, with `operands` instead of the loop's own. Gives the results
/// of the last turn.
llvm::SmallVector<mlir::Value> unrolled(Emit &b, RepeatOp op, mlir::ValueRange operands);

/// The answer of StructuredOpInterface::sharedBuffers for an op whose result i may lie in the memory of its operand i.
llvm::BitVector sharedPairs(mlir::Operation *op);

} // namespace tcc
