// KnownComputations: ops of one block that compute the same become one, the first of them.
#pragma once
#include "ir/dialect.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseSet.h"

namespace tcc {

/// Hashes and compares ops, for a set of ops that compute the same from the same values. Ops that are equal have equal
/// hashes, but the hash leaves out some of what is compared.
struct SameComputation : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(const mlir::Operation *constOp) {
    auto *op = const_cast<mlir::Operation *>(constOp);
    size_t operands =
        0; // a sum, which does not depend on their order, since some ops are equal with their operands swapped
    for (mlir::Value operand : op->getOperands())
      operands += hash_value(operand);
    llvm::hash_code properties = op->getPropertiesStorageSize() ? op->hashProperties() : llvm::hash_code(0);
    return llvm::hash_combine(op->getName().getAsOpaquePointer(), operands, op->getResult(0).getType(), properties);
  }
  static bool isEqual(const mlir::Operation *a, const mlir::Operation *b) {
    if (a == b || isSpecial(a) || isSpecial(b))
      return a == b;
    return mlir::OperationEquivalence::isEquivalentTo(const_cast<mlir::Operation *>(a),
                                                      const_cast<mlir::Operation *>(b),
                                                      mlir::OperationEquivalence::IgnoreLocations);
  }

private:
  static bool isSpecial(const mlir::Operation *op) { return op == getEmptyKey() || op == getTombstoneKey(); }
};

class KnownComputations {
public:
  /// If an op that was given before computes the same as `op`, `op` is erased and its readers read that one. Ops must
  /// be given in the order of their block, and have results and no memory effects.
  bool share(mlir::Operation &op) {
    auto [same, isNew] = known.insert(&op);
    if (isNew)
      return false;
    if (mlir::isa<ConstantOp>(op)) // which the rules' driver shares likewise: it stands for no place in the user's text
      (*same)->setLoc(mlir::UnknownLoc::get(op.getContext()));
    else if (mlir::isa<mlir::UnknownLoc>((*same)->getLoc()))
      (*same)->setLoc(op.getLoc());
    op.replaceAllUsesWith(*same);
    op.erase();
    return true;
  }

private:
  llvm::DenseSet<mlir::Operation *, SameComputation> known;
};

} // namespace tcc
