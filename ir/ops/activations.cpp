// Activations: those that stay one op through fusion, so that a matmul's epilogue can be recognised by them, and those
// that are said in terms of other ops. All compute in f32.
#include "ir/ops/activations.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <numbers>

using namespace mlir;

namespace tcc {
namespace {

/// Short spellings for scalar bodies in f32, of scalars or vectors.
class Scalars {
public:
  Scalars(OpBuilder &b, Location loc, Type type) : b(b), loc(loc), type(type) {}

  Value literal(double value) {
    TypedAttr attribute = b.getFloatAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attribute = SplatElementsAttr::get(vector, attribute);
    return arith::ConstantOp::create(b, loc, attribute);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value mul(Value x, double y) { return mul(x, literal(y)); }
  Value add(Value x, double y) { return add(x, literal(y)); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value log(Value x) { return math::LogOp::create(b, loc, x); }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value maximum(Value x, Value y) { return arith::MaximumFOp::create(b, loc, x, y); }
  /// False where either is NaN.
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y); }
  Value select(Value condition, Value yes, Value no) { return arith::SelectOp::create(b, loc, condition, yes, no); }
  /// x between -bound and bound; `bound` where x is NaN.
  Value held(Value x, double bound) {
    Value upper = literal(bound), lower = literal(-bound);
    return select(less(x, upper), select(less(lower, x), x, lower), upper);
  }

private:
  OpBuilder &b;
  Location loc;
  Type type;
};

/// sigmoid(x) is `left` and sigmoid(-x) is `right`, each exact in its tail.
struct Sigmoid {
  Value left, right;
};
Sigmoid sigmoids(Scalars &s, Value x) {
  Value negative = s.less(x, s.literal(0)), one = s.literal(1);
  Value e = s.exp(s.neg(s.abs(x)));
  Value r = s.div(one, s.add(e, one));
  return {s.mul(s.select(negative, e, one), r), s.mul(s.select(negative, one, e), r)};
}

// GELU in its tanh form, u = √(2/π)·(x + 0.044715·x³): (1 + tanh(u)) / 2 is sigmoid(2u), whose tail is exact where
// 1 + tanh(u) cancels. Beyond |x| = 32 the sigmoid is 0 or 1 in f32 whatever the square, which is bounded there, as x
// itself is in the slope: an infinite one would meet factors of 0.
constexpr double geluLinear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, geluCubic = 0.044715 * geluLinear;
constexpr double geluBound = 32;

Value boundedSquare(Scalars &s, Value x) {
  Value square = s.mul(x, x), bound = s.literal(geluBound * geluBound);
  return s.select(s.less(square, bound), square, bound);
}

/// 2u.
Value geluArgument(Scalars &s, Value x, Value square) {
  return s.mul(x, s.add(s.mul(square, geluCubic), geluLinear));
}

// Beyond |x| = 1024 e^-|x| is 0 in every format; x is held there in silu's slope for the same reason.
constexpr double siluBound = 1024;

/// The gradient of x where dy · slope(x) has the gradient dr and `curve` is the slope's own slope at x.
Value curved(Emit &b, Value x, Value dr, Value dy, Value curve) {
  Value product = b.mul(b.cast(dr, b.f32()), b.cast(dy, b.f32()));
  return b.cast(b.mul(product, curve), tensorType(x).getElementType());
}

} // namespace

Value held(Emit &b, Value x, double bound) {
  RankedTensorType type = tensorType(x);
  Value upper = b.constant(bound, type), lower = b.constant(-bound, type);
  return b.select(b.compare(Predicate::gt, x, upper), upper, b.select(b.compare(Predicate::lt, x, lower), lower, x));
}

//===- gelu, gelu_gradient -------------------------------------------------------------------------------------===//

SmallVector<Value> GeluOp::gradient(Emit &b, ValueRange dy) {
  return {b.geluGradient(getX(), dy[0])};
}
Value GeluOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  Value x = operands[0];
  return s.mul(x, sigmoids(s, geluArgument(s, x, boundedSquare(s, x))).left);
}

// With s = sigmoid(2u): gelu' = s + x·(2u)'·s·(1 - s).
Value GeluGradientOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  Value x = operands[0], square = boundedSquare(s, x);
  auto [left, right] = sigmoids(s, geluArgument(s, x, square));
  Value inner = s.add(s.mul(square, 3 * geluCubic), geluLinear);
  Value slope = s.add(left, s.mul(s.mul(s.held(x, geluBound), inner), s.mul(left, right)));
  return s.mul(operands[1], slope);
}
// gelu'' = s·(1 - s)·((2u)'·(2 + x·(2u)'·(1 - 2s)) + x·(2u)'').
SmallVector<Value> GeluGradientOp::gradient(Emit &b, ValueRange dr) {
  Value x = held(b, b.cast(getX(), b.f32()), geluBound);
  Value square = b.mul(x, x), argument = b.mul(x, b.add(b.mul(square, geluCubic), geluLinear));
  Value left = b.sigmoid(argument), right = b.sigmoid(b.neg(argument));
  Value first = b.add(b.mul(square, 3 * geluCubic), geluLinear), second = b.mul(x, 6 * geluCubic);
  Value bend = b.add(b.mul(b.mul(x, first), b.sub(right, left)), 2);
  Value curve = b.mul(b.mul(left, right), b.add(b.mul(first, bend), b.mul(x, second)));
  return {curved(b, getX(), dr[0], getDy(), curve), b.geluGradient(getX(), dr[0])};
}

//===- softplus ------------------------------------------------------------------------------------------------===//

SmallVector<Value> SoftplusOp::gradient(Emit &b, ValueRange dy) {
  Value slope = b.sigmoid(b.cast(getX(), b.f32()));
  return {b.cast(b.mul(b.cast(dy[0], b.f32()), slope), tensorType(getX()).getElementType())};
}
// max(x, 0) + ln(1 + e), e = e^-|x|. The logarithm's argument rounds; times e / ((1 + e) - 1) its result is that of the
// sum before (Goldberg 1991, theorem 4).
Value SoftplusOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  Value x = operands[0], one = s.literal(1), zero = s.literal(0);
  Value e = s.exp(s.neg(s.abs(x)));
  Value sum = s.add(e, one), rest = s.sub(sum, one);
  Value none = s.equal(rest, zero);
  Value factor = s.div(e, s.select(none, one, rest));
  return s.add(s.maximum(x, zero), s.select(none, e, s.mul(s.log(sum), factor)));
}

//===- sigmoid, silu, their gradients --------------------------------------------------------------------------===//

SmallVector<Value> SigmoidOp::gradient(Emit &b, ValueRange dy) {
  return {b.sigmoidGradient(getX(), dy[0])};
}
Value SigmoidOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  return sigmoids(s, operands[0]).left;
}

// The slope is the same at x and -x; at -|x| only the left sigmoid has a tail, which is exact however small it is.
Value SigmoidGradientOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  auto [left, right] = sigmoids(s, s.neg(s.abs(operands[0])));
  return s.mul(operands[1], s.mul(left, right));
}
// sigmoid'' = s·(1 - s)·(1 - 2s).
SmallVector<Value> SigmoidGradientOp::gradient(Emit &b, ValueRange dr) {
  Value x = b.cast(getX(), b.f32()), left = b.sigmoid(x), right = b.sigmoid(b.neg(x));
  Value curve = b.mul(b.mul(left, right), b.sub(right, left));
  return {curved(b, getX(), dr[0], getDy(), curve), b.sigmoidGradient(getX(), dr[0])};
}

SmallVector<Value> SiluOp::gradient(Emit &b, ValueRange dy) {
  return {b.siluGradient(getX(), dy[0])};
}
Value SiluOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  return s.mul(operands[0], sigmoids(s, operands[0]).left);
}

// silu' = s + x·s·(1 - s).
Value SiluGradientOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Scalars s(b, loc, type);
  Value x = operands[0];
  auto [left, right] = sigmoids(s, x);
  Value slope = s.add(left, s.mul(s.held(x, siluBound), s.mul(left, right)));
  return s.mul(operands[1], slope);
}
// silu'' = s·(1 - s)·(2 + x·(1 - 2s)).
SmallVector<Value> SiluGradientOp::gradient(Emit &b, ValueRange dr) {
  Value x = held(b, b.cast(getX(), b.f32()), siluBound), left = b.sigmoid(x), right = b.sigmoid(b.neg(x));
  Value curve = b.mul(b.mul(left, right), b.add(b.mul(x, b.sub(right, left)), 2));
  return {curved(b, getX(), dr[0], getDy(), curve), b.siluGradient(getX(), dr[0])};
}

//===- relu ----------------------------------------------------------------------------------------------------===//

SmallVector<Value> ReluOp::decompose(Emit &b) {
  Value zero = b.zeros(tensorType(getX()));
  return {b.select(b.compare(Predicate::le, getX(), zero), zero, getX())};
}

} // namespace tcc
