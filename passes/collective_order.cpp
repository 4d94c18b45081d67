#include "passes/collective_order.h"
#include "passes/joined_kernels.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {

bool isExchange(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.rankCount() > 1 && isa<InFlightOpInterface>(op);
}

void numberCollectives(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  int64_t number = 0;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isExchange(op))
      op->setAttr(orderAttr, builder.getI64IntegerAttr(++number));
  });
}

std::optional<int64_t> placeInOrder(Operation *op) {
  std::optional<int64_t> place;
  op->walk<WalkOrder::PreOrder>([&](Operation *each) {
    if (auto number = each->getAttrOfType<IntegerAttr>(orderAttr))
      place = std::min(place.value_or(number.getInt()), number.getInt());
  });
  return place;
}

SmallVector<Operation *> inOrder(Block &block) {
  SmallVector<std::pair<int64_t, Operation *>> placed;
  for (Operation &op : block)
    if (isExchange(&op) || isa<BodyOpInterface>(op))
      if (std::optional<int64_t> place = placeInOrder(&op))
        placed.emplace_back(*place, &op);
  llvm::stable_sort(placed, llvm::less_first());
  return llvm::map_to_vector(placed, [](const auto &each) { return each.second; });
}

/// A number that no group of the block's joined kernels has.
static int64_t unusedGroup(Block &block) {
  int64_t next = 0;
  for (Operation &op : block)
    next = std::max(next, joinedGroup(&op).value_or(-1) + 1);
  return next;
}

/// The op and all that it is computed from and that stands after `place`, in order; joined kernels among them are
/// groups of their own from now on.
static SmallVector<Operation *> takeLate(Operation *op, Operation *place) {
  SmallVector<Operation *> late{op};
  llvm::DenseSet<Operation *> seen{op};
  for (size_t i = 0; i < late.size(); ++i)
    for (Value operand : late[i]->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && place->isBeforeInBlock(producer) && seen.insert(producer).second)
        late.push_back(producer);
  llvm::sort(late, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  int64_t nextGroup = unusedGroup(*op->getBlock());
  llvm::DenseMap<int64_t, int64_t> groups; // by their old numbers
  for (Operation *each : late)
    if (std::optional<int64_t> group = joinedGroup(each)) {
      const int64_t own = groups.try_emplace(*group, nextGroup).first->second;
      nextGroup += own == nextGroup;
      each->setAttr(joinedAttr, IntegerAttr::get(IntegerType::get(each->getContext(), 64), own));
    }
  return late;
}

Operation *moveAfter(Operation *op, Operation *place) {
  for (Operation *each : takeLate(op, place)) {
    each->moveAfter(place);
    place = each;
  }
  return op;
}

void orderCollectives(Block &block) {
  const SmallVector<Operation *> ordered = inOrder(block);
  Operation *next = nullptr; // the one that starts after `op`
  for (Operation *op : llvm::reverse(ordered)) {
    if (next && next->isBeforeInBlock(op))
      for (Operation *each : takeLate(op, next)) {
        each->moveBefore(next);
        if (Attribute stage = next->getAttr(stageAttr)) // which comes to a collective before others that it skipped
          each->setAttr(stageAttr, stage);
      }
    next = op;
  }
}

} // namespace tcc
