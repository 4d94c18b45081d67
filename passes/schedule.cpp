// schedule: fixes the order of execution.
//   1. ops that nothing but the return reads: those that write the next value of a state move after every reader of the
//      old value, so that the update can be made in place; the others, whose results have memory of the caller's, move
//      to where what they read has just been computed, so that it need not be kept for them;
//   2. the ops that results need for which the host waits come first, stage by stage (stages.cpp);
//   3. equal kernels that do not depend on each other are joined: they stand side by side and run as one
//      (join_kernels.cpp);
//   4. collectives are put in the order that all ranks have (collective_order.h);
//   5. everything else keeps its order, which has producers close to their consumers.
// It never changes what is computed.
#include "passes/collective_order.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {
namespace {

/// Ops that nothing but the return reads.
class ReturnedOps {
public:
  explicit ReturnedOps(func::FuncOp function) : function(function), block(function.getBody().front()) {
    for (Operation &op : block) {
      position[&op] = position.size();
      Operation *&last = lastRead[&op];
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp()) {
          Operation *before = isa<StructuredOpInterface>(producer) ? producer : lastRead[producer];
          if (before && (!last || position[before] > position[last]))
            last = before;
        }
    }
  }

  void run() {
    Operation *terminator = block.getTerminator();
    SignaturePlaces signature(function);
    SmallVector<Operation *> returned;
    for (Operation &op : block.without_terminator())
      if (isa<StructuredOpInterface>(op) &&
          llvm::all_of(op.getUsers(), [&](Operation *user) { return user == terminator; }))
        returned.push_back(&op);
    SmallVector<Operation *> early;
    for (Operation *op : returned)
      if (llvm::any_of(op->getUses(),
                       [&](OpOperand &use) { return signature.updated(use.getOperandNumber()) != nullptr; }))
        op->moveBefore(terminator);
      else if (lastRead[op])
        early.push_back(op);
    // In the order of their places, so that a view that two of them read goes to the first.
    llvm::stable_sort(early, [&](Operation *a, Operation *b) { return position[lastRead[a]] < position[lastRead[b]]; });
    for (Operation *op : early)
      moveUp(op);
  }

private:
  /// To right after the last structured op that the op is computed from, with the views and literals that stand later.
  void moveUp(Operation *op) {
    Operation *last = lastRead[op];
    SmallVector<Operation *> late{op};
    for (size_t i = 0; i < late.size(); ++i)
      for (Value operand : late[i]->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && position[producer] > position[last] && moved.insert(producer).second)
          late.push_back(producer);
    llvm::sort(late, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
    Operation *&place = placed.try_emplace(last, last).first->second;
    for (Operation *each : late) {
      each->moveAfter(place);
      place = each;
    }
  }

  func::FuncOp function;
  Block &block;
  llvm::DenseMap<Operation *, unsigned> position;    // before anything moves
  llvm::DenseMap<Operation *, Operation *> lastRead; // the last structured op that the op is computed from, or null
  llvm::DenseMap<Operation *, Operation *> placed;   // by structured op: the last of those that were placed after it
  llvm::DenseSet<Operation *> moved;                 // views and literals
};

} // namespace

LogicalResult schedule(func::FuncOp function, const PipelineOptions &options) {
  Block &block = function.getBody().front();
  ReturnedOps(function).run();
  orderStages(function);
  if (options.level > 0)
    joinKernels(block, options.target);
  orderCollectives(block);
  return success();
}

} // namespace tcc
