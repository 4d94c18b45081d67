// keep-packed: marks matmuls whose right operand the target may pack once for several of them.
// A library of matmuls packs operands into the order in which it multiplies them. Lanes of a step, which are bodies
// that run one after another, multiply few rows each by the same weights, so packing these takes a share of their time
// that a whole batch does not notice: a tenth with 512 rows. Weights come into a body as inputs. So a matmul is marked
// if it stands in a body, its right operand lies in an input of the body, and it has no more rows than the target says.
// Which matmuls then share a packed operand, and whether there is memory for it, follows from the plan
// (codegen/packed_operands.h).
#include "ir/strided_view.h"
#include "passes/bodies.h"
#include "passes/memory_places.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {

/// Whether the value is an argument of the body that no turn changes.
static bool isInput(func::FuncOp body, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && !body.getArgAttr(argument.getArgNumber(), stateAttr);
}

LogicalResult keepPacked(func::FuncOp function, const PipelineOptions &options) {
  if (!BodyFunction::is(function))
    return success();
  const ViewLimits &limits = options.target.views;
  for (auto matmul : function.getBody().front().getOps<MatmulOp>())
    if (isInput(function, memoryOperands(matmul, limits)[1]) &&
        matmulViews(matmul, limits).a.rows <= options.target.packedOnceRows)
      matmul->setAttr(keptPackingAttr, UnitAttr::get(function.getContext()));
  return success();
}

} // namespace tcc
