// The generator: each part of attention is drawn from ways to write it, right and wrong ones, without knowing what the
// compiler makes of them.
#include "tests/passes/random_attention.h"
#include "tests/random_graphs/dice.h"

namespace tcc::test {
namespace {

class Writer {
public:
  Writer(Dice &dice, const AttentionInputs &in) : dice(dice), in(in), shape(in.shape) {}

  RandomAttention write() {
    RandomAttention result;
    result.wrt = {in.q, in.k, in.v};
    const int64_t times = shape.heads / shape.keyHeads;
    const bool neighbours = dice.chance(80);
    Tensor q = scaled(in.q, 20), k = scaled(repeated(in.k, times, neighbours), 20),
           v = repeated(in.v, times, neighbours);
    if (dice.chance(8))
      result.wrt.push_back(dice.pick({q, k, v}));
    merged = dice.chance(25);
    turned = dice.chance(25);
    q = laid(q), k = laid(k), v = laid(v);
    Tensor x = turned ? product(k, q, true) : product(q, k, true); // [.., T, S], or [.., S, T]
    for (int64_t step = dice.between(0, 3); step > 0; --step)
      x = changed(x);
    if (dice.chance(5))
      result.wrt.push_back(x);
    if (dice.chance(4))
      result.more.push_back(max(x));
    const int64_t keys = turned != dice.chance(4) ? -2 : -1;
    Tensor shares = keys == -1 && dice.chance(40) ? softmax(x) : softmaxOf(x, keys);
    if (dice.chance(4))
      result.more.push_back(shares);
    shares = passed(shares);
    result.out = turned ? matmul(shares, v, {.transposeA = true}) : matmul(shares, v);
    return result;
  }

private:
  Dice &dice;
  const AttentionInputs &in;
  AttentionShape shape;
  bool merged = false, turned = false; // heads and batch are one dim; scores are [.., S, T]

  /// [B, G, S, d] with each head several times, beside itself or all heads in turn.
  Tensor repeated(const Tensor &x, int64_t times, bool neighbours) {
    if (times == 1)
      return x;
    const int64_t b = x.dim(0), g = x.dim(1), s = x.dim(2), d = x.dim(3);
    const Tensor apart = neighbours ? reshape(x, {b, g, 1, s, d}) : reshape(x, {b, 1, g, s, d});
    const Shape wide = neighbours ? Shape{b, g, times, s, d} : Shape{b, times, g, s, d};
    return reshape(broadcast(apart, wide), {b, g * times, s, d});
  }

  Tensor laid(const Tensor &x) { return merged ? reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)}) : x; }

  Tensor product(const Tensor &a, const Tensor &b, bool transposeB) {
    return dice.chance(50) ? matmul(a, b, {.transposeB = transposeB}) : matmul(a, transpose(b));
  }

  Tensor scaled(const Tensor &x, int percent) {
    if (!dice.chance(percent))
      return x;
    return dice.chance(50) ? x * dice.pick({0.5, 0.3, -0.7}) : x / dice.pick({2.0, 1.7});
  }

  Shape square() const { return turned ? Shape{shape.keys, shape.queries} : Shape{shape.queries, shape.keys}; }

  /// a·t + b·s + c as [T, S] (or [S, T]), mostly s - t + c.
  Tensor distance() {
    const DType dtype = dice.pick({DType::i32, DType::f32, DType::i64});
    const Tensor t = iota(turned ? 1 : 0, square(), dtype), s = iota(turned ? 0 : 1, square(), dtype);
    const double c = static_cast<double>(dice.between(-3, 4));
    switch (dice.below(8)) {
    case 0:
      return s + t - c;
    case 1:
      return s * 2.0 - t - c;
    case 2:
      return t - s + c;
    default:
      return s - t - c;
    }
  }

  Tensor condition() {
    const Tensor x = distance();
    const double zero = dice.chance(20) ? 1 : 0;
    switch (dice.below(7)) {
    case 0:
      return less(x, zero);
    case 1:
      return logicalNot(greater(x, zero));
    case 2:
      return logicalAnd(lessEqual(x, zero), greater(distance(), -3.0));
    case 3:
      return logicalOr(lessEqual(x, zero), equal(distance(), zero));
    case 4:
      return dice.chance(50) ? greaterEqual(x, zero) : notEqual(x, zero);
    default:
      return lessEqual(x, zero);
    }
  }

  double fill() { return dice.pick({-infinity, -infinity, -1e30, -1e10, -1e9, -3.4028234663852886e38, -100.0, 0.0}); }

  /// Scores with a scale, a mask, a bias or a rounding.
  Tensor changed(const Tensor &x) {
    const Tensor b = cast(condition(), DType::f32);
    switch (dice.below(12)) {
    case 0:
    case 1:
      return scaled(x, 100);
    case 2:
    case 3:
    case 4:
      return select(condition(), x, fill());
    case 5:
      return select(condition(), full(fill(), x.shape()), x);
    case 6: {
      const double far = dice.pick({1e10, 1e10, 1e30, 5.0});
      return x * b - far * (1 - (dice.chance(85) ? b : cast(condition(), DType::f32)));
    }
    case 7:
      return x + select(condition(), full(0, square()), dice.pick({-1e30, -infinity, -1.0}));
    case 8:
      return dice.chance(30) ? x + b : x * (1.0 + 0.0 * b);
    case 9:
      return -x;
    case 10:
      return dice.chance(20) ? tanh(x) : dice.chance(10) ? dropped(x) : x + 0.0;
    default:
      return dice.chance(20) ? x + (turned ? transpose(in.bias) : in.bias) : transpose(transpose(x));
    }
  }

  Tensor softmaxOf(const Tensor &x, int64_t dim) {
    const Tensor top = max(dice.chance(50) ? detach(x) : x, dim, KeepDims::yes);
    const Tensor e = exp(x - (dice.chance(4) ? top * 0.9 : top));
    const Tensor all = sum(e, dim, KeepDims::yes);
    switch (dice.below(6)) {
    case 0:
      return e * (1 / all);
    case 1:
      return (1 / all) * e;
    case 2:
      return dice.chance(20) ? e / (all + 1.0) : e / all;
    default:
      return e / all;
    }
  }

  Tensor dropped(const Tensor &x) {
    const double rate = dice.pick({0.1, 0.5});
    return dice.chance(30) ? dropout(x, rate, in.seed, dice.below(3), full(double(dice.below(3)), {}, DType::i32))
                           : dropout(x, rate, in.seed, dice.below(3));
  }

  Tensor passed(const Tensor &given) {
    const Tensor shares = dice.chance(25) ? dropped(given) : given;
    switch (dice.below(25)) {
    case 0:
      return shares * 1.5;
    case 1:
      return select(condition(), shares, 0.0);
    case 2:
      return transpose(transpose(shares));
    case 3:
      return detach(shares);
    default:
      return shares;
    }
  }
};

} // namespace

AttentionShape randomAttentionShape(uint64_t seed) {
  Dice dice(seed);
  AttentionShape shape;
  shape.batch = dice.between(1, 2);
  shape.keyHeads = dice.between(1, 3);
  shape.heads = shape.keyHeads * (dice.chance(30) ? dice.between(2, 3) : 1);
  shape.queries = dice.between(1, 7);
  shape.keys = dice.chance(60) ? shape.queries : dice.between(1, 7);
  shape.width = dice.pick<int64_t>({1, 2, 4, 7});
  return shape;
}

RandomAttention randomAttention(uint64_t seed, const AttentionInputs &in) {
  Dice dice(seed + 1000003);
  return Writer(dice, in).write();
}

} // namespace tcc::test
