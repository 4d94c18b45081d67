// KnownComputations: ops of one block that compute the same become one, the first of them.
#pragma once
#include "ir/dialect.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseSet.h"

namespace tcc {

/// An op with the hash of what it computes. Ops that are equal have equal hashes, but the hash leaves out some of what
/// is compared.
struct Computation {
  mlir::Operation *op = nullptr;
  unsigned hash = 0;

  static unsigned hashOf(mlir::Operation *op) {
    size_t operands = 0; // a sum, since some ops are equal with their operands swapped
    for (mlir::Value operand : op->getOperands())
      operands += hash_value(operand);
    llvm::hash_code properties = op->getPropertiesStorageSize() ? op->hashProperties() : llvm::hash_code(0);
    return llvm::hash_combine(op->getName().getAsOpaquePointer(), operands, op->getResult(0).getType(), properties);
  }
};

/// For a set of ops that compute the same from the same values. To compare two ops costs much more than a hash, so
/// hashes are compared first.
struct SameComputation {
  using Pointer = llvm::DenseMapInfo<mlir::Operation *>;
  static Computation getEmptyKey() { return {Pointer::getEmptyKey()}; }
  static Computation getTombstoneKey() { return {Pointer::getTombstoneKey()}; }
  static unsigned getHashValue(const Computation &computation) { return computation.hash; }
  static bool isEqual(const Computation &a, const Computation &b) {
    if (a.op == b.op || isSpecial(a.op) || isSpecial(b.op))
      return a.op == b.op;
    return a.hash == b.hash && (areAlike(*a.op, *b.op) || mlir::OperationEquivalence::isEquivalentTo(
                                                              a.op, b.op, mlir::OperationEquivalence::IgnoreLocations));
  }

  /// Whether two ops without regions are equal to the last operand: in most cases all there is to see.
  static bool areAlike(mlir::Operation &a, mlir::Operation &b) {
    return a.getName() == b.getName() && a.getNumRegions() == 0 && b.getNumRegions() == 0 &&
           a.getNumSuccessors() == 0 && b.getNumSuccessors() == 0 &&
           a.getDiscardableAttrDictionary() == b.getDiscardableAttrDictionary() &&
           a.getName().compareOpProperties(a.getPropertiesStorage(), b.getPropertiesStorage()) &&
           llvm::equal(a.getResultTypes(), b.getResultTypes()) && llvm::equal(a.getOperands(), b.getOperands());
  }

private:
  static bool isSpecial(mlir::Operation *op) {
    return op == Pointer::getEmptyKey() || op == Pointer::getTombstoneKey();
  }
};

class KnownComputations {
public:
  /// If an op that was given before computes the same as `op`, `op` is erased and its readers read that one; `readers`
  /// (where given) takes them, and loses `op`. Ops must be given in the order of their block, and have results and no
  /// memory effects.
  bool share(mlir::Operation &op, llvm::DenseSet<mlir::Operation *> *readers = nullptr) {
    const auto [place, isNew] = known.insert({&op, Computation::hashOf(&op)});
    if (isNew)
      return false;
    mlir::Operation *same = place->op;
    if (mlir::isa<ConstantOp>(op)) // which the rules' driver shares likewise: it stands for no place in the user's text
      same->setLoc(mlir::UnknownLoc::get(op.getContext()));
    else if (mlir::isa<mlir::UnknownLoc>(same->getLoc()))
      same->setLoc(op.getLoc());
    if (readers) {
      readers->insert(op.user_begin(), op.user_end());
      readers->erase(&op);
    }
    op.replaceAllUsesWith(same);
    op.erase();
    return true;
  }

private:
  llvm::DenseSet<Computation, SameComputation> known;
};

} // namespace tcc
