// Inputs for runs against the interpreter. An argument is drawn positive where a root or a logarithm is taken of what
// grows with it: a second moment of mixed signs would make every result NaN, and NaN is equal to NaN.
#include "ir/dialect.h"
#include "passes/verify_each.h"

using namespace mlir;

namespace tcc {
namespace {

/// Whether the sign of each of its operands decides that of the results.
bool keepsSign(Operation *op) {
  if (isa<MulOp>(op)) // x · x is positive anyway
    return op->getOperand(0) != op->getOperand(1);
  return op->hasTrait<ViewOp>() ||
         isa<AddOp, DivOp, CastOp, SelectOp, ReduceSumOp, ReduceMaxOp, ReduceProdOp, MaximumOp>(op);
}

/// The arguments that must be positive, found from the uses backwards.
class PositiveArguments {
public:
  explicit PositiveArguments(func::FuncOp function) {
    function.walk([&](Operation *op) {
      if (isa<SqrtOp, RsqrtOp, LogOp>(op))
        queue.push_back(op->getOperand(0));
      else if (auto update = dyn_cast<AdamwOp>(op))
        queue.push_back(update.getV());
    });
    while (!queue.empty())
      follow(queue.pop_back_val());
  }

  bool contains(BlockArgument argument) const { return positive.contains(argument); }

private:
  void follow(Value value) {
    if (!positive.insert(value).second)
      return;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument) {
      // An argument of a region stands for an operand; a cond's predicate comes before them.
      Operation *parent = argument.getOwner()->getParentOp();
      if (isa<KernelOp, BodyOpInterface>(parent))
        queue.push_back(
            parent->getOperands().take_back(argument.getOwner()->getNumArguments())[argument.getArgNumber()]);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (isa<KernelOp, BodyOpInterface>(op))
      for (Region &body : op->getRegions())
        queue.push_back(body.front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
    else if (keepsSign(op))
      queue.append(op->operand_begin(), op->operand_end());
  }

  SmallVector<Value> queue;
  llvm::DenseSet<Value> positive;
};

} // namespace

std::vector<RefTensor> verifyInputs(func::FuncOp function, VerifyInputs kind) {
  constexpr uint64_t seed = 7;
  // Ties, zeros of both signs, and what saturates exponentials or vanishes beside the others.
  constexpr double edges[] = {0, -0.0, 1, 1, -1, 0.5, 30, -30, 1e-4, 1e-20};
  const PositiveArguments mustBePositive(function);
  std::vector<RefTensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    RankedTensorType type = tensorType(argument);
    const bool positive = type.getRank() == 0 || mustBePositive.contains(argument);
    uint64_t stream = seed * 1000 + argument.getArgNumber();
    bool isIndex = type.getElementType().isInteger();
    arguments.push_back(isIndex ? randomTensor(type, stream, 0, 4) // rows that small tables have too
                                : randomTensor(type, stream, positive ? 0.01 : -1, 1));
    if (kind == VerifyInputs::random || isIndex || positive)
      continue;
    for (auto [i, value] : llvm::enumerate(arguments.back().data)) // one element in four is an edge
      if (uint64_t choice = (i * 0x9e3779b97f4a7c15 + stream) >> 32; choice % 4 == 0)
        value = roundToElement(edges[choice / 4 % std::size(edges)], type.getElementType());
  }
  return arguments;
}

} // namespace tcc
