// MemoryUses: what the ops of a fused block read from memory, and what they may write over. Order and places are the
// planner's and the scheduler's.
#pragma once
#include "ir/dialect.h"

namespace tcc {

class MemoryUses {
public:
  MemoryUses(mlir::Block &block, const ViewLimits &views);

  /// The value in memory that each operand of `op` is read from.
  llvm::ArrayRef<mlir::Value> operands(mlir::Operation *op) const { return operandsOf.find(op)->second; }
  /// The ops that read `value` from memory, in the block's order when this was made; one an operand.
  llvm::ArrayRef<mlir::Operation *> readers(mlir::Value value) const;
  /// Whether the result may be written into the buffer of `value`, which its op reads through some of its operands.
  bool mayTakeOver(mlir::OpResult result, mlir::Value value);
  /// An operand that may have the memory of `result`, an output that its op writes, until then: a value of that size
  /// that has memory of its own (`isFree`), with every reader done before. Null if there is none.
  mlir::Value beforeOutput(mlir::OpResult result, llvm::function_ref<bool(mlir::Value)> isFree,
                           llvm::function_ref<bool(mlir::Operation *reader, mlir::Operation *op)> isDone);

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> operandsOf;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 4>> readersOf;
  llvm::DenseMap<mlir::Operation *, llvm::BitVector> sharing; // of structured ops, where it was asked for
};

} // namespace tcc
