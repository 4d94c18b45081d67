// MemoryUses: what the ops of a fused block read from memory, and what they may write over. The order of ops is decided
// by the scheduler, and places by the planner.
#pragma once
#include "ir/dialect.h"

namespace tcc {

class MemoryUses {
public:
  MemoryUses(mlir::Block &block, const ViewLimits &views);

  /// The value in memory that each operand of `op` is read from. It may be larger than the operand (tcc.unpack).
  llvm::ArrayRef<mlir::Value> operands(mlir::Operation *op) const { return operandsOf.find(op)->second; }
  /// The ops that read `value` from memory, in the order that the block had when this object was made. An op that reads
  /// it through several operands stands there for each of them.
  llvm::ArrayRef<mlir::Operation *> readers(mlir::Value value) const;
  /// Whether the result may be written into the buffer of `value`, which its op reads through some of its operands.
  bool mayTakeOver(mlir::OpResult result, mlir::Value value);
  /// `result` is an output of the function. Gives an operand of its op that may lie in the output's memory until the op
  /// writes it: a value of the same size that has no fixed place yet (`isFree`), and whose other readers are done
  /// before the op. Null if there is none.
  mlir::Value beforeOutput(mlir::OpResult result, llvm::function_ref<bool(mlir::Value)> isFree,
                           llvm::function_ref<bool(mlir::Operation *reader, mlir::Operation *op)> isDone);

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> operandsOf;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 4>> readersOf;
  llvm::DenseSet<std::pair<mlir::Operation *, mlir::Value>> partsOf; // ops that read a part of a value, with it
  llvm::DenseMap<mlir::Operation *, llvm::BitVector> sharing;        // of structured ops, where it was asked for
};

} // namespace tcc
