// HeldValues, a part of rematerialize: what a fused function keeps in memory for later. A training step first computes
// forwards up to some op, which is its turn, and then backwards. A step over several micro-batches does so several
// times.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace tcc {

/// Ops number `first` to `turn`, both included, compute forwards. The ops after them go back over their values.
struct ForwardPart {
  unsigned first = 0, turn = 0;
};

class HeldValues {
public:
  explicit HeldValues(mlir::Block &block);

  /// The structured ops in order, then the terminator.
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
