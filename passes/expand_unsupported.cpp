// expand-unsupported: writes ops for which the target has no kernel of its own in terms of other primitives.
// What an op becomes keeps its location and name. Which cases a target has is said by TargetQueries::hasKernel.
#include "ir/emit.h"
#include "ir/names.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {

LogicalResult expandUnsupported(func::FuncOp function, const PipelineOptions &options) {
  SmallVector<ExpandableOpInterface> work;
  function.walk([&](ExpandableOpInterface op) {
    if (!options.queries || !options.queries->hasKernel(op))
      work.push_back(op);
  });
  for (ExpandableOpInterface op : work) {
    OpBuilder builder(op);
    Emit emit(builder, named(op->getLoc(), nameOf(op)));
    op->replaceAllUsesWith(op.expand(emit));
    op->erase();
  }
  return success();
}

} // namespace tcc
