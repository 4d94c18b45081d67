// Decomposition and reverse sweep over one block.
#include "tests/ops/differentiate.h"
#include "ir/emit.h"

using namespace mlir;

namespace tcc::test {
namespace {

bool isFloat(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

} // namespace

void decomposeAll(func::FuncOp function) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
      auto composite = dyn_cast<CompositeOpInterface>(op);
      if (!composite)
        continue;
      OpBuilder builder(&op);
      Emit emit(builder, op.getLoc());
      SmallVector<Value> values = composite.decompose(emit);
      op.replaceAllUsesWith(values);
      op.erase();
      changed = true;
    }
  }
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
  auto accumulate = [&](Value value, Value gradient) {
    Value &sum = gradients[value];
    sum = sum ? emit.add(sum, gradient) : gradient;
  };
  for (Value y : exit->getOperands())
    if (isFloat(y))
      accumulate(y, block.addArgument(y.getType(), function.getLoc()));

  for (Operation *op : llvm::reverse(ops)) {
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    SmallVector<Value> dResults;
    for (Value result : op->getResults())
      dResults.push_back(gradients.lookup(result));
    if (!differentiable || llvm::none_of(dResults, [](Value value) { return value != nullptr; }))
      continue;
    for (auto [operand, gradient] : llvm::zip(op->getOperands(), differentiable.gradient(emit, dResults)))
      if (gradient)
        accumulate(operand, gradient);
  }

  SmallVector<Value> answers;
  for (Value x : inputs)
    if (isFloat(x))
      answers.push_back(gradients.lookup(x) ? gradients.lookup(x) : emit.zeros(tensorType(x)));
  exit->setOperands(answers);
  function.setType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(answers).getTypes()));
}

} // namespace tcc::test
