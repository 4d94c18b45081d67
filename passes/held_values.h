// HeldValues: what a fused function keeps for later, a part of rematerialize. A training step computes forwards until
// some op, its turn, and then backwards; a step over several micro-batches does so several times.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace tcc {

/// Ops [first, turn] compute forwards, by number; what follows goes back over their values.
struct ForwardPart {
  unsigned first = 0, turn = 0;
};

class HeldValues {
public:
  explicit HeldValues(mlir::Block &block);

  /// The structured ops in order, and the terminator as the last.
  std::vector<mlir::Operation *> ops;

  unsigned number(mlir::Operation *op) const { return numbers.lookup(op); }
  /// The ops that read a structured op's result, through views too, by number and in order, each once.
  llvm::ArrayRef<unsigned> readers(mlir::Value value) const;
  /// Whether the caller gets the value, or a view of it.
  bool isReturned(mlir::Value value) const {
    return !readers(value).empty() && readers(value).back() + 1 == ops.size();
  }
  /// Calls back with each structured op's result or block argument that `op` reads, through views.
  static void forEachRead(mlir::Operation *op, llvm::function_ref<void(mlir::Value)> visit);

  std::vector<ForwardPart> forwardParts() const;

private:
  llvm::DenseMap<mlir::Operation *, unsigned> numbers;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned, 4>> readersOf;

  bool onlyUpdates(mlir::Operation *op) const;
};

} // namespace tcc
