// Decomposition and reverse sweep over one block.
#include "tests/ops/differentiate.h"
#include "ir/emit.h"

using namespace mlir;

namespace tcc::test {
namespace {

bool isFloat(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

/// Sends what `gradients` holds of results of the ops back to what they were computed from.
void sweepBack(ArrayRef<Operation *> ops, Emit &emit, DenseMap<Value, Value> &gradients) {
  for (Operation *op : llvm::reverse(ops)) {
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    SmallVector<Value> dResults;
    for (Value result : op->getResults())
      dResults.push_back(gradients.lookup(result));
    if (!differentiable || llvm::none_of(dResults, [](Value value) { return value != nullptr; }))
      continue;
    for (auto [operand, gradient] : llvm::zip(op->getOperands(), differentiable.gradient(emit, dResults)))
      if (gradient) {
        Value &sum = gradients[operand];
        sum = sum ? emit.add(sum, gradient) : gradient;
      }
  }
}

} // namespace

// Rules of ops with bodies write some too.
void expandGradients(func::FuncOp function) {
  for (bool found = true; found;) {
    found = false;
    function.walk([&](GradientOp op) {
      SmallVector<Operation *> ops;
      DenseSet<Value> active(op.getWrt().begin(), op.getWrt().end());
      for (Operation &each : *op->getBlock())
        if (each.isBeforeInBlock(op) && llvm::any_of(each.getOperands(), [&](Value v) { return active.contains(v); })) {
          active.insert(each.result_begin(), each.result_end());
          ops.push_back(&each);
        }
      OpBuilder builder(op);
      Emit emit(builder, op.getLoc());
      DenseMap<Value, Value> gradients = {{op.getLoss(), emit.constant(1, tensorType(op.getLoss()))}};
      sweepBack(ops, emit, gradients);
      for (auto [wrt, result] : llvm::zip(op.getWrt(), op.getResults()))
        result.replaceAllUsesWith(gradients.lookup(wrt) ? gradients.lookup(wrt) : emit.zeros(tensorType(wrt)));
      op.erase();
      found = true;
      return WalkResult::interrupt();
    });
  }
}

void decomposeAll(func::FuncOp function) {
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
}

void differentiate(func::FuncOp function) {
  Block &block = function.getBody().front();
  Operation *exit = block.getTerminator();
  OpBuilder builder(exit);
  Emit emit(builder, function.getLoc());

  SmallVector<Value> inputs(block.getArguments());
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);

  DenseMap<Value, Value> gradients;
  for (Value y : exit->getOperands())
    if (isFloat(y)) {
      Value own = block.addArgument(y.getType(), function.getLoc()), &sum = gradients[y];
      sum = sum ? emit.add(sum, own) : own;
    }
  sweepBack(ops, emit, gradients);

  SmallVector<Value> answers;
  for (Value x : inputs)
    if (isFloat(x))
      answers.push_back(gradients.lookup(x) ? gradients.lookup(x) : emit.zeros(tensorType(x)));
  exit->setOperands(answers);
  function.setType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(answers).getTypes()));
  expandGradients(function);
}

} // namespace tcc::test
