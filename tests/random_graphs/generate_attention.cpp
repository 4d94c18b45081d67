// Each part is drawn from ways to write it, right and near ones, without knowing what the compiler makes of them.
#include "tests/random_graphs/generate_attention.h"
#include <limits>

using namespace mlir;

namespace tcc::test {
namespace {

class Writer {
public:
  Writer(Emit &emit, Dice &dice, Value seed) : emit(emit), dice(dice), seed(seed) {}

  HandwrittenAttention write(Value q, Value k, Value v) {
    SmallVector<int64_t> shape(tensorType(q).getShape());
    if (dice.chance(30))
      for (Value *x : {&q, &k, &v})
        *x = merged(*x);
    turned = dice.chance(25);
    const double scale = dice.pick({0.25, 0.3, -0.5});
    const bool inside = dice.chance(30);
    if (inside)
      q = emit.mul(q, scale);
    Value scores = turned ? emit.matmul(k, q, false, true) : emit.matmul(q, k, false, true);
    if (!inside)
      scores = dice.chance(50) ? emit.mul(scores, scale) : emit.div(scores, 1 / scale);
    Value x = emit.cast(masked(scores), emit.f32());
    if (dice.chance(10)) // softcapped
      x = emit.tanh(x);
    Value shares = turned || dice.chance(50) ? softmaxByHand(x) : emit.create<SoftmaxOp>(x);
    HandwrittenAttention written;
    if (dice.chance(10))
      written.probabilities = shares;
    shares = narrowedAndDropped(shares, tensorType(q).getElementType());
    Value mixed = emit.matmul(shares, v, turned);
    written.result = emit.reshape(mixed, shape);
    return written;
  }

private:
  Emit &emit;
  Dice &dice;
  Value seed;
  bool turned = false; // scores are keys × queries

  Value merged(Value x) {
    ArrayRef<int64_t> shape = tensorType(x).getShape();
    return emit.reshape(x, {shape[0] * shape[1], shape[2], shape[3]});
  }

  int64_t axisOf(Value x, bool keys) { return tensorType(x).getRank() - (keys == turned ? 2 : 1); }

  /// Conditions of query and key, as a causal mask is or nearly.
  Value seenPairs(ArrayRef<int64_t> shape, int64_t queries, int64_t keys) {
    Value query = emit.iota(queries, shape, emit.i32()), key = emit.iota(keys, shape, emit.i32());
    if (dice.chance(40))
      query = emit.add(query, dice.pick({1.0, 3.0, -1.0}));
    Value seen = dice.chance(90) ? emit.compare(Predicate::le, key, query) : emit.compare(Predicate::ne, key, query);
    if (dice.chance(30)) // a window
      seen = emit.logicalAnd(seen, emit.compare(Predicate::gt, key, emit.sub(query, dice.pick({4.0, 20.0}))));
    return seen;
  }

  /// Every row keeps a score that is finite.
  Value masked(Value scores) {
    if (dice.chance(25))
      return scores;
    RankedTensorType type = tensorType(scores);
    Value seen = seenPairs(type.getShape(), axisOf(scores, false), axisOf(scores, true));
    switch (dice.below(4)) {
    case 0: {
      Value b = emit.cast(seen, type.getElementType());
      Value hidden = emit.mul(emit.sub(emit.constant(1, type), b), 1e10);
      return emit.sub(emit.mul(scores, b), hidden);
    }
    case 1:
      return emit.add(scores, emit.select(seen, emit.zeros(type), emit.constant(-1e30, type)));
    default:
      return emit.select(seen, scores, emit.constant(dice.pick({-1e30, -1e9, -1e9, -3.0}), type));
    }
  }

  Value softmaxByHand(Value x) {
    const int64_t axis = axisOf(x, true);
    ArrayRef<int64_t> shape = tensorType(x).getShape();
    Value e = emit.exp(emit.sub(x, emit.broadcast(emit.reduceMax(emit.detach(x), {axis}), shape)));
    Value sum = emit.reduceSum(e, {axis});
    return dice.chance(30) ? emit.mul(e, emit.broadcast(emit.div(emit.constant(1, tensorType(sum)), sum), shape))
                           : emit.div(e, emit.broadcast(sum, shape));
  }

  Value narrowedAndDropped(Value shares, Type element) {
    const bool dropped = dice.chance(40), after = dice.chance(50);
    if (dropped && !after)
      shares = drop(shares);
    shares = emit.cast(shares, element);
    return dropped && after ? drop(shares) : shares;
  }

  Value drop(Value x) {
    return emit.create<DropoutOp>(x, seed, llvm::APFloat(dice.pick({0.1, 0.5})), static_cast<uint64_t>(dice.below(5)),
                                  Value());
  }
};

} // namespace

HandwrittenAttention writeAttention(Emit &emit, Dice &dice, Value q, Value k, Value v, Value seed) {
  return Writer(emit, dice, seed).write(q, k, v);
}

} // namespace tcc::test
