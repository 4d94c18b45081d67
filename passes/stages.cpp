#include "passes/stages.h"
#include "ir/dialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tcc {

std::optional<int64_t> stageOf(Operation *op) {
  auto stage = op->getAttrOfType<IntegerAttr>(stageAttr);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

namespace {

class Stages {
public:
  explicit Stages(Block &block) : block(block) {}

  /// The next stage: what `roots` and `ops` need.
  void add(SmallVector<Value> roots, ArrayRef<Operation *> ops) {
    llvm::DenseSet<Operation *> needed;
    for (Operation *op : ops)
      if (!placed.contains(op) && needed.insert(op).second)
        llvm::append_range(roots, op->getOperands());
    while (!roots.empty()) {
      Operation *producer = roots.pop_back_val().getDefiningOp();
      if (producer && !placed.contains(producer) && needed.insert(producer).second)
        llvm::append_range(roots, producer->getOperands());
    }
    move(needed);
    ++stage;
  }

private:
  Block &block;
  llvm::DenseSet<Operation *> placed;
  int64_t stage = 0;

  void move(const llvm::DenseSet<Operation *> &needed) {
    Builder builder(block.getTerminator()->getContext());
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
};

} // namespace

void orderStages(func::FuncOp function) {
  Block &block = function.getBody().front();
  Stages stages(block);
  if (auto asked = function->getAttrOfType<IntegerAttr>(askedAttr))
    for (int64_t i = 0; i < asked.getInt(); ++i)
      stages.add({block.getTerminator()->getOperand(i)}, {});
  SmallVector<Operation *> mayFail;
  for (CustomOp op : block.getOps<CustomOp>())
    mayFail.push_back(op);
  if (!mayFail.empty())
    stages.add({}, mayFail);
}

} // namespace tcc
