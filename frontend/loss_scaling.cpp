// Loss scaling as a rewrite of the captured step:
//   1. three states are added;
//   2. each tcc.gradient differentiates loss · scale, and its results are multiplied by 1 / scale;
//   3. the step is finite if its losses and the sum of its gradients' squares are. That sum has the form of a global
//      norm, with which it becomes one by common subexpressions;
//   4. each next state is selected against the old one; scale and counters follow.
#include "frontend/loss_scaling.h"
#include "ir/emit.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr double firstScale = 65536, growth = 2, backoff = 0.5, goodSteps = 2000;
constexpr double leastScale = 1, mostScale = 4294967296; // a loss that is never finite must not end in 0 · inf

class LossScaler {
public:
  explicit LossScaler(func::FuncOp function)
      : function(function), block(function.getBody().front()), builder(function.getContext()),
        emit(builder, function.getLoc()), scalar(RankedTensorType::get({}, builder.getF32Type())) {}

  void run() {
    for (size_t i = 0; i < lossScalingStates.size(); ++i)
      states[i] = addState(lossScalingStates[i]);
    scaleGradients();
    keepOldStates();
    updateScale();
  }

private:
  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  Emit emit;
  RankedTensorType scalar;
  std::array<Value, 3> states;
  Value scale, inverse, finite;
  SmallVector<Value> losses;                // f32, unscaled
  SmallVector<SmallVector<Value>> sums;     // of gradients: one list for each list of values that they are of
  SmallVector<SmallVector<Value>> variable; // those lists

  Value literal(double value) { return emit.constant(value, scalar); }

  Value addState(StringRef name) {
    NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr(name));
    attributes.set(stateAttr, builder.getUnitAttr());
    (void)function.insertArgument(function.getNumArguments(), scalar, attributes.getDictionary(builder.getContext()),
                                  function.getLoc());
    return block.getArguments().back();
  }

  /// The scalar, or the whole of `like`'s shape filled with it.
  Value repeated(Value x, Value like) {
    RankedTensorType type = tensorType(like).clone(tensorType(x).getElementType());
    if (type.getRank() == 0)
      return x;
    return BroadcastOp::create(builder, emit.loc, type, x, type.hasStaticShape() ? Value() : like);
  }

  void scaleGradients() {
    builder.setInsertionPointToStart(&block);
    Value known = emit.compare(Predicate::gt, states[0], literal(0));
    scale = emit.select(known, states[0], literal(firstScale));
    inverse = emit.div(literal(1), scale);
    for (GradientOp gradient : llvm::make_early_inc_range(block.getOps<GradientOp>())) {
      builder.setInsertionPoint(gradient);
      emit.loc = gradient.getLoc();
      Value loss = emit.cast(gradient.getLoss(), emit.f32());
      losses.push_back(loss);
      auto scaled = GradientOp::create(builder, emit.loc, emit.mul(loss, scale), gradient.getWrt());
      SmallVector<Value> shares;
      for (Value result : scaled.getResults()) {
        Value share = emit.mul(emit.cast(result, emit.f32()), repeated(inverse, result));
        shares.push_back(emit.cast(share, tensorType(result).getElementType()));
      }
      gradient.replaceAllUsesWith(shares);
      addGradients(SmallVector<Value>(scaled.getWrt()), shares);
      gradient.erase();
    }
  }

  /// Gradients of the same values are added up, as a step of several batches does it.
  void addGradients(const SmallVector<Value> &values, const SmallVector<Value> &shares) {
    for (auto [known, sum] : llvm::zip_equal(variable, sums))
      if (known == values) {
        for (auto [total, share] : llvm::zip_equal(sum, shares))
          total = emit.add(total, share);
        return;
      }
    variable.push_back(values);
    sums.push_back(shares);
  }

  void keepOldStates() {
    Operation *end = block.getTerminator();
    builder.setInsertionPoint(end);
    emit.loc = end->getLoc();
    Value total;
    for (const SmallVector<Value> &sum : sums)
      for (Value gradient : sum) {
        Value wide = emit.cast(gradient, emit.f32());
        SmallVector<int64_t> axes;
        for (int64_t axis = 0; axis < tensorType(wide).getRank(); ++axis)
          axes.push_back(axis);
        Value squares = emit.reshape(emit.reduceSum(emit.mul(wide, wide), axes), {});
        total = total ? emit.add(total, squares) : squares;
      }
    finite = emit.isFinite(total);
    for (Value loss : losses)
      finite = emit.logicalAnd(emit.isFinite(loss), finite);
    for (OpOperand &result : end->getOpOperands())
      if (auto name = function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), updatesAttr)) {
        Value old = stateNamed(name);
        result.set(emit.select(repeated(finite, old), result.get(), old));
      }
  }

  Value stateNamed(StringAttr name) {
    for (BlockArgument argument : block.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), nameAttr) == name)
        return argument;
    llvm_unreachable("each update names a state (function_c4)");
  }

  void updateScale() {
    Value good = emit.add(states[1], 1);
    Value grows = emit.compare(Predicate::ge, good, literal(goodSteps));
    Value larger = emit.minimum(emit.mul(scale, growth), literal(mostScale));
    Value smaller = emit.maximum(emit.mul(scale, backoff), literal(leastScale));
    addUpdate(0, emit.select(finite, emit.select(grows, larger, scale), smaller));
    addUpdate(1, emit.select(emit.logicalAnd(finite, emit.logicalNot(grows)), good, literal(0)));
    addUpdate(2, emit.select(finite, states[2], emit.add(states[2], 1)));
  }

  void addUpdate(size_t state, Value next) {
    NamedAttrList attributes;
    attributes.set(updatesAttr, builder.getStringAttr(lossScalingStates[state]));
    (void)function.insertResult(function.getNumResults(), scalar, attributes.getDictionary(builder.getContext()));
    Operation *end = block.getTerminator();
    end->insertOperands(end->getNumOperands(), next);
  }
};

} // namespace

bool scaleLoss(func::FuncOp function) {
  bool updates = false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    updates |= bool(function.getResultAttr(i, updatesAttr));
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr))
      if (llvm::is_contained(lossScalingStates, name.getValue()))
        return false;
  if (!updates || function.getBody().front().getOps<GradientOp>().empty())
    return false;
  LossScaler(function).run();
  return true;
}

} // namespace tcc
