#include "passes/stages.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tcc {

std::optional<int64_t> stageOf(Operation *op) {
  auto stage = op->getAttrOfType<IntegerAttr>(stageAttr);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

llvm::DenseSet<Operation *> steadyOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> steady;
  Block &block = function.getBody().front();
  auto asked = function->getAttrOfType<IntegerAttr>(askedAttr);
  const bool isWhole = function->hasAttr(steadyAttr);
  SmallVector<Value> work(block.getTerminator()->getOperands());
  if (!isWhole)
    work.truncate(asked ? asked.getInt() : 0);
  while (!work.empty()) {
    Operation *producer = work.pop_back_val().getDefiningOp();
    if (producer && steady.insert(producer).second)
      llvm::append_range(work, producer->getOperands());
  }
  return steady;
}

void orderStages(func::FuncOp function) {
  auto asked = function->getAttrOfType<IntegerAttr>(askedAttr);
  if (!asked)
    return;
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  Builder builder(function.getContext());
  llvm::DenseSet<Operation *> placed;
  for (int64_t stage = 0; stage < asked.getInt(); ++stage) {
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> work{terminator->getOperand(stage)};
    while (!work.empty()) {
      Operation *producer = work.pop_back_val().getDefiningOp();
      if (producer && !placed.contains(producer) && needed.insert(producer).second)
        llvm::append_range(work, producer->getOperands());
    }
    SmallVector<Operation *> inOrder;
    for (Operation &op : block)
      if (needed.contains(&op))
        inOrder.push_back(&op);
    Operation *place = &block.front();
    while (placed.contains(place))
      place = place->getNextNode();
    for (Operation *op : inOrder) {
      op->setAttr(stageAttr, builder.getI64IntegerAttr(stage));
      if (op == place)
        place = place->getNextNode();
      else
        op->moveBefore(place);
      placed.insert(op);
    }
  }
}

} // namespace tcc
