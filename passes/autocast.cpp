// autocast: matmuls and attention take their operands in 16 bits and add up in f32.
//   1. the f32 operands of each such op (NarrowableOpInterface) are cast below their views, once a value, so that what
//      is stored is 16-bit and every op that reads the value, forward and backward, reads the same one;
//   2. results that follow their operands' type (attention's) are widened for those that read f32; a matmul keeps its
//      f32 result;
//   3. a matmul whose every user casts its result again is rounded on its way out instead;
//   4. what a loop reads in 16 bits in each turn is cast before it: weights are cast once a step, not in each lane.
// Everything else stays as it is: sums, norms, softmax, losses, parameters and their updates are f32. Casts are
// ordinary ops, and fusion puts them into the kernels that make the values. Ops that are written with other types are
// left alone.
#include "passes/narrow_type.h"
#include "passes/passes.h"

using namespace mlir;

namespace tcc {
namespace {

bool isWide(NarrowableOpInterface op) {
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    return !op.narrows(operand.getOperandNumber()) || tensorType(operand.get()).getElementType().isF32();
  });
}

/// Gives the op the types that follow from its operands; its results read as before.
void inferAgain(Operation *op) {
  SmallVector<Type> types;
  LogicalResult inferred = cast<InferTypeOpInterface>(op).inferReturnTypes(
      op->getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(), op->getPropertiesStorage(),
      op->getRegions(), types);
  if (failed(inferred))
    llvm::report_fatal_error("operands that had one type have another one now, and it is not accepted");
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
    Type before = result.getType();
    if (before == type)
      continue;
    result.setType(type);
    if (!result.use_empty()) {
      auto widened = CastOp::create(builder, op->getLoc(), before, result);
      result.replaceAllUsesExcept(widened, widened);
    }
  }
}

/// Casts to `narrow` of the inputs of loops go before the first loop that reads them. Those are arguments of the
/// function: what it computes, as ranks gather parameters, may be needed no longer than the loop reads it.
void castBeforeLoops(Block &block, Type narrow) {
  DenseMap<Value, Value> known;
  for (auto loop : block.getOps<RepeatOp>()) {
    Block &body = loop.getBody().front();
    const unsigned firstInput = body.getNumArguments() - static_cast<unsigned>(loop.getInputs().size());
    for (unsigned i = 0, inputs = static_cast<unsigned>(loop.getInputs().size()); i < inputs; ++i) {
      Value input = loop.getInputs()[i];
      if (!isa<BlockArgument>(input) || !tensorType(input).getElementType().isF32())
        continue;
      SmallVector<Operation *> casts;
      llvm::copy_if(body.getArgument(firstInput + i).getUsers(), std::back_inserter(casts),
                    [&](Operation *user) { return isCastTo(user, narrow); });
      if (casts.empty())
        continue;
      Value &cast = known[input];
      if (!cast) {
        OpBuilder builder(loop);
        cast = CastOp::create(builder, casts.front()->getLoc(), casts.front()->getResult(0).getType(), input);
      }
      loop.getInputsMutable().append(cast);
      Value argument = body.addArgument(cast.getType(), loop.getLoc());
      for (Operation *each : casts) {
        each->getResult(0).replaceAllUsesWith(argument);
        each->erase();
      }
    }
  }
}

} // namespace

LogicalResult autocast(func::FuncOp function, const PipelineOptions &options) {
  Type narrow = narrowType(options.products, function.getContext());
  if (!narrow)
    return success();
  Block &block = function.getBody().front();
  SmallVector<NarrowableOpInterface> wide;
  for (NarrowableOpInterface op : block.getOps<NarrowableOpInterface>())
    if (isWide(op))
      wide.push_back(op);
  SmallVector<MatmulOp> products;
  CastBelowViews narrowed(narrow);
  for (NarrowableOpInterface op : wide) {
    op.keepResultType();
    for (OpOperand &operand : op->getOpOperands())
      if (op.narrows(operand.getOperandNumber()))
        operand.set(narrowed(operand.get()));
    inferAgain(op);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) // views of the operands before, and what would count as a user that needs f32
      op.erase();
    else if (auto product = dyn_cast<MatmulOp>(op); product && tensorType(product.getA()).getElementType() == narrow)
      products.push_back(product);
  for (MatmulOp product : llvm::reverse(products))
    if (!product->use_empty() && tensorType(product.getResult()).getElementType().isF32() &&
        llvm::all_of(product->getUsers(), [&](Operation *user) { return isCastTo(user, narrow); }))
      narrowResult(product, narrow);
  castBeforeLoops(block, narrow);
  return success();
}

} // namespace tcc
