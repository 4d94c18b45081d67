// Elementwise primitives: per op its inference, folding, gradient and scalar computation, in this order.
#include "ir/ops/activations.h"
#include "ir/ops/constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <cmath>
#include <numbers>

using namespace mlir;

namespace tcc {
namespace {

bool isFloat(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type));
}

/// `element` as a value of `type`, a scalar or a vector of it.
Value constantOf(OpBuilder &b, Location loc, Type type, TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    element = SplatElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, loc, element);
}

Value literal(OpBuilder &b, Location loc, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  return constantOf(b, loc, type,
                    isFloat(element) ? cast<TypedAttr>(b.getFloatAttr(element, value))
                                     : cast<TypedAttr>(b.getIntegerAttr(element, static_cast<int64_t>(value))));
}

/// Truncated, saturated, 0 for NaN: arith.fptosi has no value outside of the integer's range.
Value floatToInteger(OpBuilder &b, Location loc, Value x, Type type) {
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  double limit = std::ldexp(1.0, static_cast<int>(width) - 1);
  auto extreme = [&](const APInt &value) {
    return constantOf(b, loc, type, b.getIntegerAttr(getElementTypeOrSelf(type), value));
  };
  auto select = [&](Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, loc, condition, yes, no);
  };
  Value low = literal(b, loc, x.getType(), -limit), high = literal(b, loc, x.getType(), limit);
  Value notBelow = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, x, low);
  Value below = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, low);
  Value notAbove = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, high);
  Value above = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, x, high);
  Value inside = arith::AndIOp::create(b, loc, notBelow, notAbove);
  Value converted = arith::FPToSIOp::create(b, loc, type, select(inside, x, literal(b, loc, x.getType(), 0)));
  converted = select(above, extreme(APInt::getSignedMaxValue(width)), converted);
  return select(below, extreme(APInt::getSignedMinValue(width)), converted);
}

template <typename FloatOp, typename IntOp>
Value floatOrInt(OpBuilder &b, Location loc, ValueRange operands) {
  if (isFloat(operands[0].getType()))
    return FloatOp::create(b, loc, operands[0], operands[1]);
  return IntOp::create(b, loc, operands[0], operands[1]);
}

/// Arithmetic of one element that reads like formulas, on floats or integers.
class Numbers {
public:
  Numbers(OpBuilder &b, Location loc) : b(b), loc(loc) {}
  Value add(Value x, Value y) { return floatOrInt<arith::AddFOp, arith::AddIOp>(b, loc, {x, y}); }
  Value sub(Value x, Value y) { return floatOrInt<arith::SubFOp, arith::SubIOp>(b, loc, {x, y}); }
  Value div(Value x, Value y) { return floatOrInt<arith::DivFOp, arith::DivSIOp>(b, loc, {x, y}); }
  Value less(Value x, Value y) { return compare(arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt, x, y); }
  Value equal(Value x, Value y) { return compare(arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq, x, y); }
  Value differ(Value x, Value y) { return compare(arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne, x, y); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
  Value number(Value like, double value) { return literal(b, loc, like.getType(), value); }

  /// The rest of x / y, rounded towards 0. No integer division overflows or divides by 0.
  Value rest(Value x, Value y) {
    if (isFloat(x.getType()))
      return arith::RemFOp::create(b, loc, x, y);
    return arith::RemSIOp::create(b, loc, x, safeDivisor(y));
  }
  /// The integer x / y, rounded towards 0.
  Value quotient(Value x, Value y) {
    Value zero = number(x, 0), whole = div(x, safeDivisor(y));
    whole = select(equal(y, number(y, -1)), sub(zero, x), whole);
    return select(equal(y, zero), zero, whole);
  }
  /// Whether the rest is not 0 and has another sign than y: the quotient rounded down is one less than the other.
  Value isRoundedUp(Value rest, Value y) {
    Value zero = number(y, 0);
    return both(differ(rest, zero), differ(less(rest, zero), less(y, zero)));
  }

private:
  OpBuilder &b;
  Location loc;

  Value compare(arith::CmpFPredicate ofFloats, arith::CmpIPredicate ofIntegers, Value x, Value y) {
    if (isFloat(x.getType()))
      return arith::CmpFOp::create(b, loc, ofFloats, x, y);
    return arith::CmpIOp::create(b, loc, ofIntegers, x, y);
  }
  /// y, or 1 where it is 0 or -1.
  Value safeDivisor(Value y) {
    Value one = number(y, 1);
    return select(equal(y, number(y, -1)), one, select(equal(y, number(y, 0)), one, y));
  }
};

/// The gradient of maximum and minimum: to the winner, in halves where equal, whole to both where either is NaN.
SmallVector<Value> gradientOfWinner(Emit &b, Value lhs, Value rhs, Value dy, Predicate loses) {
  Value zero = b.zeros(tensorType(dy));
  Value half = b.mul(dy, 0.5);
  Value equal = b.compare(Predicate::eq, lhs, rhs);
  Value toLhs = b.select(equal, half, b.select(b.compare(loses, lhs, rhs), zero, dy));
  Value toRhs = b.select(equal, half, b.select(b.compare(loses, rhs, lhs), zero, dy));
  return {toLhs, toRhs};
}

} // namespace

//===- neg, abs ------------------------------------------------------------------------------------------------===//

OpFoldResult NegOp::fold(FoldAdaptor) {
  if (auto inner = getX().getDefiningOp<NegOp>()) // -(-x) = x
    return inner.getX();
  return {};
}
SmallVector<Value> NegOp::gradient(Emit &b, ValueRange dy) {
  return {b.neg(dy[0])};
}
Value NegOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  if (isFloat(type))
    return arith::NegFOp::create(b, loc, operands[0]);
  return arith::SubIOp::create(b, loc, literal(b, loc, type, 0), operands[0]);
}

SmallVector<Value> AbsOp::gradient(Emit &b, ValueRange dy) {
  Value zero = b.zeros(tensorType(getX()));
  Value negative = b.compare(Predicate::lt, getX(), zero);
  Value positive = b.compare(Predicate::gt, getX(), zero);
  return {b.select(negative, b.neg(dy[0]), b.select(positive, dy[0], zero))};
}
Value AbsOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  if (isFloat(type))
    return math::AbsFOp::create(b, loc, operands[0]);
  return math::AbsIOp::create(b, loc, operands[0]);
}

//===- transcendental ------------------------------------------------------------------------------------------===//

SmallVector<Value> ExpOp::gradient(Emit &b, ValueRange dy) {
  return {b.mul(dy[0], getResult())};
}
Value ExpOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::ExpOp::create(b, loc, operands[0]);
}

SmallVector<Value> LogOp::gradient(Emit &b, ValueRange dy) {
  return {b.div(dy[0], getX())};
}
Value LogOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::LogOp::create(b, loc, operands[0]);
}

SmallVector<Value> SqrtOp::gradient(Emit &b, ValueRange dy) {
  return {b.div(b.mul(dy[0], 0.5), getResult())};
}
Value SqrtOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::SqrtOp::create(b, loc, operands[0]);
}

SmallVector<Value> RsqrtOp::gradient(Emit &b, ValueRange dy) {
  Value y = getResult();
  return {b.mul(b.mul(b.mul(dy[0], -0.5), y), b.mul(y, y))}; // the cube of y alone may overflow
}
Value RsqrtOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  return arith::DivFOp::create(b, loc, literal(b, loc, type, 1), math::SqrtOp::create(b, loc, operands[0]));
}

// 4e / (1 + e)^2 with e = e^-2|x|: 1 - y·y would be 0 where y rounds to 1. |x| is x times a sign that is constant for
// gradients, since the gradient of |x| at 0 is 0, which is not that of what stands here.
SmallVector<Value> TanhOp::gradient(Emit &b, ValueRange dy) {
  Type element = tensorType(getX()).getElementType();
  Value x = b.cast(getX(), b.f32());
  RankedTensorType type = tensorType(x);
  Value negative = b.compare(Predicate::lt, x, b.zeros(type));
  Value e = b.exp(b.mul(x, b.select(negative, b.constant(2, type), b.constant(-2, type))));
  Value r = b.div(b.constant(2, type), b.add(e, 1));
  return {b.cast(b.mul(b.cast(dy[0], b.f32()), b.mul(b.mul(e, r), r)), element)};
}
Value TanhOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::TanhOp::create(b, loc, operands[0]);
}

SmallVector<Value> SinOp::gradient(Emit &b, ValueRange dy) {
  return {b.mul(dy[0], b.cos(getX()))};
}
Value SinOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::SinOp::create(b, loc, operands[0]);
}

SmallVector<Value> CosOp::gradient(Emit &b, ValueRange dy) {
  return {b.neg(b.mul(dy[0], b.sin(getX())))};
}
Value CosOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::CosOp::create(b, loc, operands[0]);
}

// In f32: 2/sqrt(pi) is no 16-bit number. Beyond 32 e^-x² is 0 in every format; x is held there, so that the slope's
// own gradient does not multiply that 0 by an infinite x.
SmallVector<Value> ErfOp::gradient(Emit &b, ValueRange dy) {
  Value x = held(b, b.cast(getX(), b.f32()), 32);
  Value slope = b.mul(b.exp(b.neg(b.mul(x, x))), 2 * std::numbers::inv_sqrtpi);
  return {b.cast(b.mul(b.cast(dy[0], b.f32()), slope), tensorType(getX()).getElementType())};
}
Value ErfOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::ErfOp::create(b, loc, operands[0]);
}

SmallVector<Value> Expm1Op::gradient(Emit &b, ValueRange dy) {
  return {b.mul(dy[0], b.exp(getX()))};
}
Value Expm1Op::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::ExpM1Op::create(b, loc, operands[0]);
}

SmallVector<Value> Log1pOp::gradient(Emit &b, ValueRange dy) {
  return {b.div(dy[0], b.add(getX(), 1))};
}
Value Log1pOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::Log1pOp::create(b, loc, operands[0]);
}

//===- floor, ceil, round, trunc, sign
//-----------------------------------------------------------------------------===//

Value FloorOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::FloorOp::create(b, loc, operands[0]);
}
Value CeilOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::CeilOp::create(b, loc, operands[0]);
}
Value RoundOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::RoundEvenOp::create(b, loc, operands[0]);
}
Value TruncOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::TruncOp::create(b, loc, operands[0]);
}
Value SignOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Value zero = literal(b, loc, type, 0);
  Value negative = Numbers(b, loc).less(operands[0], zero), positive = Numbers(b, loc).less(zero, operands[0]);
  Value below = arith::SelectOp::create(b, loc, negative, literal(b, loc, type, -1), zero);
  return arith::SelectOp::create(b, loc, positive, literal(b, loc, type, 1), below);
}

//===- add, sub, mul, div --------------------------------------------------------------------------------------===//
// Only algebra that also holds for NaN, infinity and -0 is folded: x + 0 is not x when x is -0, but x - 0 is.

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), -0.0) || isSplatInteger(adaptor.getRhs(), 0)) // x + -0 = x
    return getLhs();
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), [](double a, double b) { return a + b; });
}
SmallVector<Value> AddOp::gradient(Emit &, ValueRange dy) {
  return {dy[0], dy[0]};
}
Value AddOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return floatOrInt<arith::AddFOp, arith::AddIOp>(b, loc, operands);
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 0.0) || isSplatInteger(adaptor.getRhs(), 0)) // x - 0 = x
    return getLhs();
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), [](double a, double b) { return a - b; });
}
SmallVector<Value> SubOp::gradient(Emit &b, ValueRange dy) {
  return {dy[0], b.neg(dy[0])};
}
Value SubOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return floatOrInt<arith::SubFOp, arith::SubIOp>(b, loc, operands);
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 1.0) || isSplatInteger(adaptor.getRhs(), 1)) // x · 1 = x
    return getLhs();
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), [](double a, double b) { return a * b; });
}
SmallVector<Value> MulOp::gradient(Emit &b, ValueRange dy) {
  if (getLhs() == getRhs()) // one term, not two equal ones: 2 is exact, and joins a factor that is equal along a row
    return {b.mul(b.mul(dy[0], 2), getLhs()), Value()};
  return {b.mul(dy[0], getRhs()), b.mul(dy[0], getLhs())};
}
Value MulOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return floatOrInt<arith::MulFOp, arith::MulIOp>(b, loc, operands);
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 1.0)) // x / 1 = x
    return getLhs();
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), [](double a, double b) { return a / b; });
}
SmallVector<Value> DivOp::gradient(Emit &b, ValueRange dy) {
  DenseElementsAttr numerator;
  if (matchPattern(getLhs(), m_Constant(&numerator)) && isSplat(numerator, 1.0)) // 1 / x: no further division
    return {b.mul(dy[0], getResult()), b.neg(b.mul(b.mul(dy[0], getResult()), getResult()))};
  // The quotient is divided, not dy: 0 / tiny has the gradient 0, where dy / tiny would be infinite.
  return {b.div(dy[0], getRhs()), b.neg(b.mul(dy[0], b.div(getResult(), getRhs())))};
}
Value DivOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return arith::DivFOp::create(b, loc, operands[0], operands[1]);
}

//===- maximum, minimum ----------------------------------------------------------------------------------------===//

OpFoldResult MaximumOp::fold(FoldAdaptor) {
  return getLhs() == getRhs() ? getLhs() : Value();
}
SmallVector<Value> MaximumOp::gradient(Emit &b, ValueRange dy) {
  return gradientOfWinner(b, getLhs(), getRhs(), dy[0], Predicate::lt);
}
Value MaximumOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return floatOrInt<arith::MaximumFOp, arith::MaxSIOp>(b, loc, operands);
}

OpFoldResult MinimumOp::fold(FoldAdaptor) {
  return getLhs() == getRhs() ? getLhs() : Value();
}
SmallVector<Value> MinimumOp::gradient(Emit &b, ValueRange dy) {
  return gradientOfWinner(b, getLhs(), getRhs(), dy[0], Predicate::gt);
}
Value MinimumOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return floatOrInt<arith::MinimumFOp, arith::MinSIOp>(b, loc, operands);
}

SmallVector<Value> ClampOp::gradient(Emit &b, ValueRange dy) {
  Value x = getX(), low = getLow(), high = getHigh(), zero = b.zeros(tensorType(dy[0]));
  Value isInside = b.logicalAnd(b.compare(Predicate::le, low, x), b.compare(Predicate::le, x, high));
  Value isLow = b.logicalAnd(b.compare(Predicate::le, low, high), b.compare(Predicate::lt, x, low));
  Value isHigh = b.logicalOr(b.compare(Predicate::gt, x, high), b.compare(Predicate::gt, low, high));
  return {b.select(isInside, dy[0], zero), b.select(isLow, dy[0], zero), b.select(isHigh, dy[0], zero)};
}
Value ClampOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  Value raised = floatOrInt<arith::MaximumFOp, arith::MaxSIOp>(b, loc, {operands[0], operands[1]});
  return floatOrInt<arith::MinimumFOp, arith::MinSIOp>(b, loc, {raised, operands[2]});
}

//===- pow
//---------------------------------------------------------------------------------------------------------===//

OpFoldResult PowOp::fold(FoldAdaptor adaptor) {
  return isSplat(adaptor.getRhs(), 1.0) ? getLhs() : Value(); // x^1 = x
}
SmallVector<Value> PowOp::gradient(Emit &b, ValueRange dy) {
  Value x = getLhs(), y = getRhs(), zero = b.zeros(tensorType(x));
  Value slope = b.mul(y, b.pow(x, b.sub(y, 1)));
  DenseElementsAttr exponent; // what is asked of a literal is known
  bool isLiteral = matchPattern(y, m_Constant(&exponent)) && exponent.isSplat();
  if (isLiteral && exponent.getSplatValue<APFloat>().isZero())
    slope = zero;
  else if (!isLiteral)
    slope = b.select(b.compare(Predicate::eq, y, zero), zero, slope);
  Value atZero = b.logicalAnd(b.compare(Predicate::eq, x, zero), b.compare(Predicate::ge, y, zero));
  Value growth = b.select(atZero, zero, b.mul(getResult(), b.log(x)));
  return {b.mul(dy[0], slope), b.mul(dy[0], growth)};
}
Value PowOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return math::PowFOp::create(b, loc, operands[0], operands[1]);
}

//===- fmod, remainder, floor_divide
//-------------------------------------------------------------------------------===//

SmallVector<Value> FmodOp::gradient(Emit &b, ValueRange dy) {
  return {dy[0], b.neg(b.mul(dy[0], b.trunc(b.div(getLhs(), getRhs()))))};
}
Value FmodOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return Numbers(b, loc).rest(operands[0], operands[1]);
}

SmallVector<Value> RemainderOp::gradient(Emit &b, ValueRange dy) {
  return {dy[0], b.neg(b.mul(dy[0], b.floorDivide(getLhs(), getRhs())))};
}
Value RemainderOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  Numbers n(b, loc);
  Value rest = n.rest(operands[0], operands[1]);
  return n.select(n.isRoundedUp(rest, operands[1]), n.add(rest, operands[1]), rest);
}

OpFoldResult FloorDivideOp::fold(FoldAdaptor adaptor) {
  return isSplatInteger(adaptor.getRhs(), 1) ? getLhs() : Value(); // x / 1 = x
}
// x less its rest is a multiple of y; of floats, the difference and the quotient are rounded, to less than a half.
Value FloorDivideOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Numbers n(b, loc);
  Value x = operands[0], y = operands[1], one = n.number(x, 1), zero = n.number(x, 0), rest = n.rest(x, y);
  Value isRoundedUp = n.isRoundedUp(rest, y);
  if (!isFloat(type)) {
    Value whole = n.quotient(x, y);
    return n.select(isRoundedUp, n.sub(whole, one), whole);
  }
  Value near = n.div(n.sub(x, rest), y), quotient = n.div(x, y);
  near = n.select(isRoundedUp, n.sub(near, one), near);
  Value whole = math::FloorOp::create(b, loc, near);
  whole = n.select(n.less(n.number(x, 0.5), n.sub(near, whole)), n.add(whole, one), whole);
  whole = n.select(n.equal(near, zero), arith::MulFOp::create(b, loc, quotient, zero), whole); // 0 with its sign
  return n.select(n.equal(y, zero), quotient, whole);
}

//===- logic ---------------------------------------------------------------------------------------------------===//

Value NotOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  bool isBool = getElementTypeOrSelf(type).isInteger(1);
  return arith::XOrIOp::create(b, loc, operands[0], literal(b, loc, type, isBool ? 1 : -1));
}

OpFoldResult AndOp::fold(FoldAdaptor) {
  return getLhs() == getRhs() ? getLhs() : Value();
}
Value AndOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return arith::AndIOp::create(b, loc, operands[0], operands[1]);
}

OpFoldResult OrOp::fold(FoldAdaptor) {
  return getLhs() == getRhs() ? getLhs() : Value();
}
Value OrOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return arith::OrIOp::create(b, loc, operands[0], operands[1]);
}

Value XorOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return arith::XOrIOp::create(b, loc, operands[0], operands[1]);
}

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(withElement(tensorType(adaptor.getOperands()[0]), IntegerType::get(context, 1)));
  return success();
}
Value CompareOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  auto index = static_cast<unsigned>(getPredicate());
  if (isFloat(operands[0].getType()))
    return arith::CmpFOp::create(b, loc, floats[index], operands[0], operands[1]);
  if (Type type = operands[0].getType(); getElementTypeOrSelf(type).isInteger(1)) { // whose one bit would be a sign
    Type wide = b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(wide);
    return arith::CmpIOp::create(b, loc, ints[index], arith::ExtUIOp::create(b, loc, wide, operands[0]),
                                 arith::ExtUIOp::create(b, loc, wide, operands[1]));
  }
  return arith::CmpIOp::create(b, loc, ints[index], operands[0], operands[1]);
}

LogicalResult IsFiniteOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(withElement(tensorType(adaptor.getOperands()[0]), IntegerType::get(context, 1)));
  return success();
}
Value IsFiniteOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  Value magnitude = math::AbsFOp::create(b, loc, operands[0]);
  Value infinity = literal(b, loc, operands[0].getType(), std::numeric_limits<double>::infinity());
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, magnitude, infinity);
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getOnTrue() == getOnFalse())
    return getOnTrue();
  if (isSplatInteger(adaptor.getCondition(), 1))
    return getOnTrue();
  if (isSplatInteger(adaptor.getCondition(), 0))
    return getOnFalse();
  return {};
}
SmallVector<Value> SelectOp::gradient(Emit &b, ValueRange dy) {
  Value zero = b.zeros(tensorType(dy[0]));
  return {Value(), b.select(getCondition(), dy[0], zero), b.select(getCondition(), zero, dy[0])};
}
Value SelectOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type) {
  return arith::SelectOp::create(b, loc, operands[0], operands[1], operands[2]);
}

//===- cast, cast_by_bits, detach
//----------------------------------------------------------------------------------===//

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  return foldCast(adaptor.getX(), tensorType(getResult()));
}
SmallVector<Value> CastOp::gradient(Emit &b, ValueRange dy) {
  Type from = tensorType(getX()).getElementType();
  if (!isFloat(from) || !isFloat(getType()))
    return {Value()};
  return {b.cast(dy[0], from)};
}
Value CastOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Value x = operands[0];
  Type from = getElementTypeOrSelf(x.getType()), to = getElementTypeOrSelf(type);
  if (from == to)
    return x;
  bool fromBool = from.isInteger(1), toBool = to.isInteger(1);
  if (isFloat(from) && toBool)
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x, literal(b, loc, x.getType(), 0));
  if (isFloat(from))
    return floatToInteger(b, loc, x, type);
  if (isFloat(to) && fromBool)
    return arith::UIToFPOp::create(b, loc, type, x);
  if (isFloat(to))
    return arith::SIToFPOp::create(b, loc, type, x);
  if (toBool)
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x, literal(b, loc, x.getType(), 0));
  if (fromBool)
    return arith::ExtUIOp::create(b, loc, type, x);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return arith::ExtSIOp::create(b, loc, type, x);
  return arith::TruncIOp::create(b, loc, type, x);
}

LogicalResult CastByBitsOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  types.push_back(withElement(tensorType(adaptor.getX()), BFloat16Type::get(context)));
  return success();
}
SmallVector<Value> CastByBitsOp::gradient(Emit &b, ValueRange dy) {
  return {b.cast(dy[0], b.f32()), Value()};
}
// The bits of an f32 are in the order of its magnitude: an addend below 2^16 carries into bf16's part of them, up to
// infinity, or does not. A NaN could be carried into another number.
Value CastByBitsOp::scalarBody(OpBuilder &b, Location loc, ValueRange operands, Type type) {
  Value x = operands[0], addend = operands[1];
  Type integer = addend.getType();
  Value low = arith::AndIOp::create(b, loc, addend, literal(b, loc, integer, 0xffff));
  Value sum = arith::AddIOp::create(b, loc, arith::BitcastOp::create(b, loc, integer, x), low);
  Value high = arith::AndIOp::create(b, loc, sum, literal(b, loc, integer, -0x10000));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x, x);
  return arith::SelectOp::create(b, loc, isNan, x, arith::BitcastOp::create(b, loc, type, high));
}

Value DetachOp::scalarBody(OpBuilder &, Location, ValueRange operands, Type) {
  return operands[0];
}

} // namespace tcc
