#include "passes/stages.h"
#include "ir/dialect.h"
#include "mlir/IR/Builders.h"
#include "passes/bodies.h"

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
  for (Operation &op : block) // a body's stages are its op's
    if (!BodyFunction::is(function) && op.walk([](CustomOp) { return WalkResult::interrupt(); }).wasInterrupted())
      mayFail.push_back(&op);
  if (!mayFail.empty())
    stages.add({}, mayFail);
}

} // namespace tcc
