// schedule: fixes the order of execution.
//   1. kernels that write the next value of a state, and nothing that others read, move behind every reader of the old
//      value, so that the update can be made in place;
//   2. everything else keeps its order, which has producers close to their consumers.
// It never changes what is computed.
#include "ir/dialect.h"
#include "passes/passes.h"

using namespace mlir;

namespace tcc {

LogicalResult schedule(func::FuncOp function, const PipelineOptions &) {
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  SmallVector<Operation *> updates;
  for (Operation &op : block.without_terminator()) {
    bool onlyReturned = isa<StructuredOpInterface>(op) &&
                        llvm::all_of(op.getUsers(), [&](Operation *user) { return user == terminator; });
    if (onlyReturned)
      updates.push_back(&op);
  }
  for (Operation *op : updates)
    op->moveBefore(terminator);
  return success();
}

} // namespace tcc
