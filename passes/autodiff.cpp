// autodiff: expands tcc.gradient by reverse-mode differentiation.
//   1. mark the values that depend on a `wrt` (active), in program order;
//   2. walk back from the loss; each op's `gradient` gives its operands' shares, added up per value;
//   3. what a wrt has received is its gradient, zeros if nothing; shares that nobody reads go.
// Gradient ops stand where their op stands, under its name and ".grad"; what a parameter receives is named after it.
// It keeps the forward ops as they are; which of their values the backward reads or recomputes is decided by
// fuse-kernels. Gradients of gradients work, since earlier gradient ops are expanded first. What a cond's gradient
// gives and nobody reads is dropped from its bodies; the gradients of custom ops go when all is expanded.
#include "ir/emit.h"
#include "ir/known_traits.h"
#include "ir/names.h"
#include "passes/bodies.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tcc {
namespace {

bool isFloatTensor(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

/// The name of the function's argument that `value` is, but for views and casts; "" for others.
StringRef argumentName(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!op->hasTrait<ViewOp>() && !isa<CastOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return nameOf(value.getLoc());
}

Location gradientLocation(Location loc, StringRef name) {
  return named(loc, (name + ".grad").str());
}

/// Erases the ops from after `before` (null: from the block's first) to `end` whose results nobody reads.
void eraseUnread(Operation *before, Operation *end) {
  for (Operation *op = end->getPrevNode(), *next; op != before; op = next) {
    next = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
  }
}

/// The shares of the op's operands, by its own rule.
SmallVector<Value> sharesOf(DifferentiableOpInterface op, OpBuilder &builder, ValueRange results) {
  StringRef only = op->getNumOperands() == 1 ? argumentName(op->getOperand(0)) : StringRef();
  Emit emit(builder, gradientLocation(op->getLoc(), only.empty() ? nameOf(op.getOperation()) : only));
  SmallVector<Value> shares = op.gradient(emit, results);
  if (only.empty())
    for (auto [operand, share] : llvm::zip(op->getOperands(), shares))
      if (Operation *made = share ? share.getDefiningOp() : nullptr; made && made->getLoc() == emit.loc)
        if (StringRef name = argumentName(operand); !name.empty())
          made->setLoc(gradientLocation(made->getLoc(), name));
  return shares;
}

LogicalResult expand(GradientOp gradient) {
  llvm::DenseSet<Value> active(gradient.getWrt().begin(), gradient.getWrt().end());
  SmallVector<Operation *> tape;
  for (Operation &op : *gradient->getBlock()) {
    if (&op == gradient)
      break;
    if (knownTrait<NoGradient>(&op) || !llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
      continue;
    for (Value result : op.getResults())
      if (isFloatTensor(result))
        active.insert(result);
    tape.push_back(&op);
  }

  OpBuilder builder(gradient);
  Operation *before = gradient->getPrevNode();
  llvm::DenseMap<Value, Value> adjoint;
  auto receive = [&](Emit &emit, Value value, Value share) {
    Value &sum = adjoint[value];
    sum = sum ? emit.add(sum, share) : share;
  };
  if (active.contains(gradient.getLoss())) {
    Emit emit(builder, gradient.getLoc());
    receive(emit, gradient.getLoss(), emit.constant(1, tensorType(gradient.getLoss())));
  }
  for (Operation *op : llvm::reverse(tape)) {
    SmallVector<Value> results;
    for (Value result : op->getResults())
      results.push_back(adjoint.lookup(result));
    if (llvm::none_of(results, [](Value value) { return bool(value); }))
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError() << "has no gradient; a differentiable op or tcc.detach is expected between wrt and loss";
    SmallVector<Value> shares = sharesOf(differentiable, builder, results);
    if (shares.empty() && op->getNumOperands() > 0) {
      if (isa<CustomOp>(op)) // other ops have said why
        op->emitError() << "'" << nameOf(op)
                        << "' has no gradient; give it one, a graph or another custom op, or detach what it reads";
      return failure();
    }
    Emit emit(builder, gradientLocation(op->getLoc(), nameOf(op)));
    for (auto [operand, share] : llvm::zip(op->getOperands(), shares))
      if (share && active.contains(operand))
        receive(emit, operand, share);
  }
  Emit emit(builder, gradient.getLoc());
  for (auto [wrt, result] : llvm::zip(gradient.getWrt(), gradient.getResults())) {
    Value value = adjoint.lookup(wrt);
    if (!value)
      value = emit.zeros(tensorType(wrt));
    else if (llvm::any_of(result.getUsers(), [](Operation *user) { return isa<GradientOp>(user); }))
      value = emit.create<CastOp>(value.getType(), value); // a wrt itself: others' gradients are not computed from it
    result.replaceAllUsesWith(value);
  }
  eraseUnread(before, gradient);
  gradient.erase();
  return success();
}

} // namespace

LogicalResult autodiff(func::FuncOp function, const PipelineOptions &options) {
  // The first of the program each time: rules of ops with bodies give gradients of their own, before what reads them.
  auto first = [&] {
    GradientOp found;
    function.walk([&](GradientOp op) {
      found = op;
      return WalkResult::interrupt();
    });
    return found;
  };
  if (GradientOp inner = BodyFunction::is(function) ? first() : GradientOp();
      inner && options.products == ProductType::f16)
    return inner.emitOpError(
        "in a body has no scale of its loss, which products of f16 need; take it outside of the body, "
        "or choose bf16");
  while (GradientOp op = first())
    if (failed(expand(op)))
      return failure();
  pruneBodies(function);
  if (!BodyFunction::is(function)) // a body's may still be asked for by what is around it
    function.walk([](CustomOp op) { op.getBackward().getBlocks().clear(); });
  return success();
}

} // namespace tcc
