// knownTrait: whether an op has a trait of the dialect, where many ops are asked. Operation::hasTrait compares the
// trait with each one of the op's kind, some 300 instructions; here the answer is remembered for each kind.
#pragma once
#include "ir/dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc {

template <template <typename> class Trait>
bool knownTrait(mlir::Operation *op) {
  if (!op->isRegistered()) // all such kinds have one id
    return op->hasTrait<Trait>();
  static thread_local llvm::DenseMap<mlir::TypeID, bool> ofKind;
  const auto [known, isNew] = ofKind.try_emplace(op->getName().getTypeID(), false);
  if (isNew)
    known->second = op->hasTrait<Trait>();
  return known->second;
}

} // namespace tcc
