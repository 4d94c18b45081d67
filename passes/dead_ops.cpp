#include "passes/dead_ops.h"

using namespace mlir;

namespace tcc {

void eraseDeadOps(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace tcc
