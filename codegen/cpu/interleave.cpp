#include "codegen/cpu/interleave.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tcc::cpu {

static constexpr llvm::StringLiteral interleaveAttr = "tcc.interleave"; // on a loop, a unit attribute

void mayInterleave(LaneBuilder &b) {
  std::prev(b.builder.getInsertionPoint())->setAttr(interleaveAttr, b.builder.getUnitAttr());
}

namespace {

/// Of shorter computations enough vectors are under way in any order, and more of their values fit in registers if one
/// vector follows another.
constexpr unsigned leastChain = 12;

bool isVector(Value value) {
  return isa<VectorType>(value.getType());
}

bool writesMemory(Operation &op) {
  if (op.getNumRegions() == 0 && llvm::none_of(op.getOperandTypes(), llvm::IsaPred<LLVM::LLVMPointerType>))
    return false;
  auto effects = getEffectsRecursively(&op);
  return !effects || llvm::any_of(*effects, [](const MemoryEffects::EffectInstance &effect) {
    return isa<MemoryEffects::Write>(effect.getEffect());
  });
}

/// The ops of a loop's body: those that have to do with no vector, and the others, a list for each vector. Ops that
/// need each other are of one vector. What a vector stores may lie where it loads, so where anything is stored, a
/// vector is all that was emitted before its stores, and these.
struct Body {
  explicit Body(Block &block) {
    llvm::EquivalenceClasses<Operation *> groups;
    const bool hasStores = llvm::any_of(block.without_terminator(), writesMemory);
    Operation *before = nullptr;
    for (Operation &op : block.without_terminator()) {
      const SmallVector<Operation *> needed = neededOps(op);
      const bool isOfVector = llvm::any_of(op.getResults(), isVector) || llvm::any_of(op.getOperands(), isVector);
      auto isGrouped = [&](Operation *other) { return groups.contains(other); };
      if (op.hasTrait<OpTrait::ConstantLike>() ||
          (!isOfVector && isMemoryEffectFree(&op) && llvm::none_of(needed, isGrouped))) {
        scalars.push_back(&op);
        continue;
      }
      groups.insert(&op);
      unsigned length = 0;
      for (Operation *other : needed)
        if (isGrouped(other)) {
          groups.unionSets(&op, other);
          length = std::max(length, chains.lookup(other));
        }
      if (hasStores && before && (!writesMemory(*before) || writesMemory(op)))
        groups.unionSets(&op, before);
      before = &op;
      longestChain = std::max(longestChain, chains[&op] = length + isOfVector);
    }
    for (Operation &op : block.without_terminator())
      if (groups.contains(&op))
        vectors[groups.getLeaderValue(&op)].push_back(&op);
  }

  SmallVector<Operation *> scalars;
  llvm::MapVector<Operation *, SmallVector<Operation *>> vectors; // by one of their ops
  unsigned longestChain = 0;                                      // of ops on vectors that need each other

private:
  llvm::DenseMap<Operation *, unsigned> chains; // that end with the op

  /// The ops of the block whose results `op` uses, in its regions too.
  static SmallVector<Operation *> neededOps(Operation &op) {
    SmallVector<Operation *> ops;
    auto add = [&](Value value) {
      if (Operation *other = value.getDefiningOp(); other && other->getBlock() == op.getBlock())
        ops.push_back(other);
    };
    llvm::for_each(op.getOperands(), add);
    visitUsedValuesDefinedAbove(op.getRegions(), [&](OpOperand *operand) { add(operand->get()); });
    return ops;
  }
};

} // namespace

void interleaveVectors(Operation *root) {
  root->walk([](scf::ForOp loop) {
    if (!loop->hasAttr(interleaveAttr))
      return;
    Body body(*loop.getBody());
    if (body.vectors.size() < 2 || body.longestChain < leastChain)
      return;
    // An op's place is the part of its vector's ops that come before it.
    SmallVector<std::pair<double, Operation *>> ops;
    for (auto &[leader, vector] : body.vectors)
      for (auto [i, op] : llvm::enumerate(vector))
        ops.push_back({static_cast<double>(i) / static_cast<double>(vector.size()), op});
    llvm::stable_sort(ops, llvm::less_first());
    auto moveToEnd = [&](Operation *op) { op->moveBefore(loop.getBody()->getTerminator()); };
    llvm::for_each(body.scalars, moveToEnd);
    for (auto [place, op] : ops)
      moveToEnd(op);
  });
}

} // namespace tcc::cpu
