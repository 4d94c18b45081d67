// decompose: replaces each composite op by its definition in terms of primitives, until none is left.
// Locations of the composite are kept by all that replaces it. Nothing else changes.
#include "ir/emit.h"
#include "passes/passes.h"

using namespace mlir;

namespace tcc {

LogicalResult decompose(func::FuncOp function, const PipelineOptions &) {
  SmallVector<CompositeOpInterface> work;
  do {
    work.clear();
    function.walk([&](CompositeOpInterface op) { work.push_back(op); });
    for (CompositeOpInterface op : work) {
      OpBuilder builder(op);
      Emit emit(builder, op->getLoc());
      SmallVector<Value> values = op.decompose(emit);
      op->replaceAllUsesWith(values);
      op->erase();
    }
  } while (!work.empty());
  return success();
}

} // namespace tcc
