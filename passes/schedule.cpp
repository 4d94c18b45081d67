// schedule: fixes the order of execution.
//   1. kernels that write the next value of a state, and nothing that others read, move after every reader of the old
//      value, so that the update can be made in place;
//   2. the ops that results need for which the host waits come first, stage by stage (stages.cpp);
//   3. equal kernels that do not depend on each other are joined: they stand side by side and run as one
//      (join_kernels.cpp);
//   4. everything else keeps its order, which has producers close to their consumers.
// It never changes what is computed.
#include "passes/joined_kernels.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {

LogicalResult schedule(func::FuncOp function, const PipelineOptions &options) {
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
  orderStages(function);
  if (options.level > 0)
    joinKernels(block, options.target.joinedBytes, options.target.alignment);
  return success();
}

} // namespace tcc
