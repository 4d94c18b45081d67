// expand-unsupported: writes ops for which the target has no kernel of its own in terms of other primitives.
//   1. ops that can be expanded (attention, custom ops with a body), where TargetQueries::hasKernel says no; inner ones
//      first, since a custom op may stand in the body of another; then those that expansions consist of;
//   2. matmuls of f16 on a target that has none: of the same values in f32, and rounded afterwards.
// What an op becomes keeps its location and name.
#include "ir/emit.h"
#include "ir/names.h"
#include "passes/narrow_type.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {

static void widenProducts(func::FuncOp function) {
  CastBelowViews widened(Float32Type::get(function.getContext()));
  SmallVector<MatmulOp> work;
  for (MatmulOp product : function.getBody().getOps<MatmulOp>())
    if (tensorType(product.getA()).getElementType().isF16())
      work.push_back(product);
  for (MatmulOp product : work) {
    OpBuilder builder(product);
    Emit emit(builder, product.getLoc());
    Value wide =
        emit.matmul(widened(product.getA()), widened(product.getB()), product.getTransposeA(), product.getTransposeB());
    product.replaceAllUsesWith(emit.cast(wide, tensorType(product.getResult()).getElementType()));
    product.erase();
  }
}

/// An op with code for another target alone.
static void tellBody(CustomOp op, const PipelineOptions &options) {
  if (op.hasCode())
    options.remarks->push_back({Remark::Kind::missed, "expand-unsupported", op.getLoc(),
                                ("'" + nameOf(op.getOperation()) + "' has no code for target '" + options.target.name +
                                 "': it is computed as its body")
                                    .str()});
}

static LogicalResult expand(ExpandableOpInterface op, const PipelineOptions &options) {
  OpBuilder builder(op);
  Emit emit(builder, named(op->getLoc(), nameOf(op)));
  if (isa<CondOp>(op) && options.remarks)
    options.remarks->push_back({Remark::Kind::missed, "expand-unsupported", op->getLoc(),
                                "both bodies of `cond` are computed and a value is selected: target '" +
                                    options.target.name + "' has no branches"});
  SmallVector<Value> values = op.expand(emit);
  if (values.empty() && op->getNumResults() > 0)
    return op->emitError() << "'" << nameOf(op.getOperation()) << "' has no code for target '" << options.target.name
                           << "' and no body; one of them is needed";
  if (auto custom = dyn_cast<CustomOp>(op.getOperation()); custom && options.remarks)
    tellBody(custom, options);
  op->replaceAllUsesWith(values);
  op->erase();
  return success();
}

LogicalResult expandUnsupported(func::FuncOp function, const PipelineOptions &options) {
  auto unsupported = [&] {
    SmallVector<ExpandableOpInterface> work;
    function.walk([&](ExpandableOpInterface op) {
      if (!options.queries || !options.queries->hasKernel(op))
        work.push_back(op);
    });
    return work;
  };
  for (SmallVector<ExpandableOpInterface> work = unsupported(); !work.empty(); work = unsupported())
    for (ExpandableOpInterface op : work)
      if (failed(expand(op, options)))
        return failure();
  if (!options.target.multipliesF16)
    widenProducts(function);
  return success();
}

} // namespace tcc
