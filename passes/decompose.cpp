// decompose: replaces each composite op by its definition in terms of primitives, until none is left. Matmuls that add
// something become matmuls and additions: passes up to fuse-epilogues know no others.
// The composite's location is kept by all that replaces it, with its name: the user's, or else the op's own, since a
// `mul` of a gelu is the gelu to people. Nothing else changes. A result stays a value of its own,
// also where the definition gives an operand back: autodiff tells the gradients of the two apart.
// Custom ops that are their body and nothing else go first, in the same way; those with a gradient of their own stay
// until autodiff has taken it (expand-unsupported).
// Optimizer updates compute the same scalars and literals for each parameter, most of a step's ops; all but the first
// are left out at once where simplify, which would do so, is not far. Nothing takes a gradient of them.
#include "ir/emit.h"
#include "ir/names.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/known_computations.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

/// `value`, or a copy of it where it is one of `operands`: a cast to its own type, which `simplify` folds away.
Value ownValue(Emit &emit, Value value, ValueRange operands) {
  return llvm::is_contained(operands, value) ? emit.create<CastOp>(value.getType(), value) : value;
}

} // namespace

static void writeOutPlain(func::FuncOp function) {
  SmallVector<CustomOp> plain; // inner ones first
  function.walk([&](CustomOp op) {
    if (op.isPlain())
      plain.push_back(op);
  });
  for (CustomOp op : plain) {
    OpBuilder builder(op);
    Emit emit(builder, named(op.getLoc(), nameOf(op.getOperation())));
    op->replaceAllUsesWith(op.expand(emit));
    op->erase();
  }
}

static void writeOutSums(func::FuncOp function) {
  SmallVector<MatmulOp> products;
  function.walk([&](MatmulOp product) {
    if (product.hasEpilogue())
      products.push_back(product);
  });
  for (MatmulOp product : products) {
    OpBuilder builder(product);
    Emit emit(builder, product->getLoc());
    product.replaceAllUsesWith(product.withoutEpilogue(emit));
    product.erase();
  }
}

/// Shares those of the ops after `previous` and before `end` that are scalars or literals.
static void shareScalars(Operation *previous, Operation *end, KnownComputations &known) {
  Operation *op = previous ? previous->getNextNode() : &end->getBlock()->front();
  while (op != end) {
    Operation &made = *op;
    op = op->getNextNode();
    if (made.getNumResults() == 1 && made.getNumRegions() == 0 &&
        (isa<ConstantOp>(made) || (tensorType(made.getResult(0)).getRank() == 0 && isMemoryEffectFree(&made))))
      known.share(made);
  }
}

LogicalResult decompose(func::FuncOp function, const PipelineOptions &options) {
  writeOutPlain(function);
  writeOutSums(function);
  SmallVector<CompositeOpInterface> work;
  do {
    work.clear();
    KnownComputations known; // of the function's own block; those of another round may stand before them
    function.walk([&](CompositeOpInterface op) { work.push_back(op); });
    for (CompositeOpInterface op : work) {
      OpBuilder builder(op);
      Emit emit(builder, named(op->getLoc(), nameOf(op)));
      Operation *previous = op->getPrevNode();
      SmallVector<Value> values = op.decompose(emit);
      for (Value &value : values)
        value = ownValue(emit, value, op->getOperands());
      op->replaceAllUsesWith(values);
      if (options.level > 0 && op->hasTrait<NoGradient>() && op->getBlock() == &function.getBody().front())
        shareScalars(previous, op, known);
      op->erase();
    }
  } while (!work.empty());
  return success();
}

} // namespace tcc
