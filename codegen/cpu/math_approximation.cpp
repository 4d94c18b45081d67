// Range reduction after Cody and Waite (1980), of large angles after Payne and Hanek (1983); the polynomials are
// minimax fits of our own, in f32.
#include "codegen/cpu/math_approximation.h"
#include "mlir/IR/Matchers.h"
#include <numbers>

using namespace mlir;

namespace tcc::cpu {
namespace {

/// Says of an op that addFastMathFlags() leaves it as it is; it removes this unit attribute.
constexpr llvm::StringLiteral writtenOutAttr = "tcc.written_out";

/// Arithmetic on values of one shape, a scalar or a vector.
class Arithmetic {
public:
  Arithmetic(OpBuilder &builder, Location loc, Type type, const VectorTarget &target)
      : b(builder), loc(loc), target(target), f32(type), f64(with(b.getF64Type())), i32(with(b.getI32Type())),
        i64(with(b.getI64Type())) {}
  /// For code that is written out before addFastMathFlags() is called.
  Arithmetic(LaneBuilder &b, Type type) : Arithmetic(b.builder, b.loc, type, b.target) { isBeforeFlags = true; }

  Value exp(Value x);
  Value expAtMostOne(Value x);
  Value normalExp(Value x);
  Value exp2(Value x);
  Value sigmoid(Value x);
  std::pair<Value, Value> sigmoids(Value x);
  Value nearSigmoid(Value x, bool isMirrored);
  std::pair<Value, Value> nearSigmoids(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sine(Value x, int64_t quarterTurns);
  Value expm1(Value x);
  Value log1p(Value x);
  Value pow(Value x, Value y);
  Value remainder(Value x, Value y);
  enum class Rounding : uint8_t { floor, ceil, even, trunc };
  Value whole(Value x, Rounding rounding);

private:
  OpBuilder &b;
  Location loc;
  const VectorTarget &target;
  Type f32, f64, i32, i64;
  bool isBeforeFlags = false;
  using Predicate = arith::CmpFPredicate;

  Type with(Type element) const {
    auto vector = dyn_cast<VectorType>(f32);
    return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
  }
  template <typename Op, typename... Args>
  auto create(Args &&...args) {
    auto op = Op::create(b, loc, std::forward<Args>(args)...);
    if (isBeforeFlags && isa<arith::ArithFastMathInterface>(op.getOperation()))
      op->setAttr(writtenOutAttr, b.getUnitAttr());
    if constexpr (Op::template hasTrait<OpTrait::OneResult>())
      return Value(op);
  }
  Value splat(Type type, TypedAttr attr) {
    if (auto vector = dyn_cast<VectorType>(type))
      attr = SplatElementsAttr::get(vector, attr);
    return create<arith::ConstantOp>(attr);
  }
  Value literal(Type type, double value) { return splat(type, b.getFloatAttr(getElementTypeOrSelf(type), value)); }
  Value literal(double value) { return literal(f32, value); }
  Value integer(Type type, int64_t value) { return splat(type, b.getIntegerAttr(getElementTypeOrSelf(type), value)); }
  // Each of these is rounded on its own. LLVM is left no choice between one rounding and two: what it takes would
  // depend on what else the kernel computes, and a value would have other bits where it is computed again.
  Value add(Value x, Value y) { return create<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return create<arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return create<arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return create<arith::DivFOp>(x, y); }
  /// x · y + z, rounded once where the target has an instruction for it.
  Value mulAdd(Value x, Value y, Value z) { return target.hasFma ? create<math::FmaOp>(x, y, z) : add(mul(x, y), z); }
  /// z - x · y, likewise.
  Value mulSub(Value z, Value x, Value y) {
    return target.hasFma ? create<math::FmaOp>(create<arith::NegFOp>(x), y, z) : sub(z, mul(x, y));
  }
  Value compare(Predicate predicate, Value x, double y) {
    return create<arith::CmpFOp>(predicate, x, literal(x.getType(), y));
  }
  Value select(Value condition, Value x, Value y) { return create<arith::SelectOp>(condition, x, y); }
  Value cast(Type type, Value x) { return create<arith::BitcastOp>(type, x); }
  Value copySign(Value magnitude, Value sign) { return create<math::CopySignOp>(magnitude, sign); }
  Value magnitude(Value x) { return create<math::AbsFOp>(x); }
  Value less(Value x, Value y) { return create<arith::CmpFOp>(Predicate::OLT, x, y); }
  Value both(Value x, Value y) { return create<arith::AndIOp>(x, y); }
  Value negated(Value condition) { return create<arith::XOrIOp>(condition, integer(condition.getType(), 1)); }
  /// Coefficients from the highest power down.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = literal(coefficients.front());
    for (float coefficient : coefficients.drop_front())
      sum = mulAdd(sum, x, literal(coefficient));
    return sum;
  }
  /// The power of two that is nearest to e^x; `biased` is power + bias + roundingBias.
  struct NearestPower {
    Value power, biased;
  };
  NearestPower nearestPower(Value x, int64_t bias);
  /// x = power · ln 2 + rest with |rest| <= ln 2 / 2.
  struct Reduced : NearestPower {
    Value rest;
  };
  Reduced reduce(Value x, int64_t bias = 0);
  struct Powers {
    Value ofWhole, ofRest; // 2^n, and 2^-f or e^-r
  };
  Powers powersOf(Value x, bool isMirrored, double most);
  Powers exactPowersOf(Value x);
  Value log2Wide(Value x);
  Value restWide(Value x, Value y);
  Value expm1Reduced(Value rest); // e^rest - 1
  Value scale(Value x, Value power, Value biased);
  Value fractionOf(Value x);
  /// Whether the target has an instruction for x · 2^power.
  bool hasScaling() const {
    auto vector = dyn_cast<VectorType>(f32);
    return target.hasScaling() && vector && vector.getNumElements() == target.lanes;
  }
  /// 2^e, where `biased` is e + exponentBias + roundingBias: 0 for e = -127, a normal number for e from -126 to 127.
  Value powerOfTwo(Value biased) { return cast(f32, create<arith::ShLIOp>(cast(i32, biased), integer(i32, 23))); }
  /// x = quadrant · pi/2 + rest with |rest| <= pi/4, up to whole turns; `rest` as f32, `quadrant` as i32.
  struct Angle {
    Value rest, quadrant;
  };
  Angle reduceAngle(Value x);
  Angle reduceLargeAngle(Value x);
  Value isAny(Value condition) {
    return isa<VectorType>(condition.getType()) ? create<LLVM::vector_reduce_or>(b.getI1Type(), condition) : condition;
  }
};

// Adding 1.5·2^23 leaves the nearest integer in the low bits of the mantissa, for NaN too a defined pattern.
constexpr double roundingBias = 12582912.0;
constexpr int64_t roundingBiasBits = 0x4B400000;
constexpr int exponentBias = 127; // of f32
constexpr int sigmoidRaisedBy = 32;
constexpr double log2e = 1.4426950408889634, ln2High = 355.0 / 512, ln2Low = -2.121944417e-4;

/// x · 2^power; `biased` is power + roundingBias.
Value Arithmetic::scale(Value x, Value power, Value biased) {
  if (hasScaling()) {
    Value allLanes = create<arith::ConstantOp>(b.getI16IntegerAttr(-1));
    Value currentRounding = create<arith::ConstantOp>(b.getI32IntegerAttr(4));
    return LLVM::CallIntrinsicOp::create(b, loc, f32, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                         ValueRange{x, power, x, allLanes, currentRounding})
        .getResults();
  }
  // In two factors, so that the one rounding of a denormal result comes last.
  Value n = create<arith::SubIOp>(cast(i32, biased), integer(i32, roundingBiasBits));
  Value half = create<arith::ShRSIOp>(n, integer(i32, 1));
  auto factor = [&](Value exponent) {
    Value raised = create<arith::AddIOp>(exponent, integer(i32, exponentBias));
    return cast(f32, create<arith::ShLIOp>(raised, integer(i32, 23)));
  };
  return mul(mul(x, factor(half)), factor(create<arith::SubIOp>(n, half)));
}

/// x less its floor, where the target has scaling.
Value Arithmetic::fractionOf(Value x) {
  constexpr int64_t toFloor = 9; // round down, raise nothing
  Value mode = create<arith::ConstantOp>(b.getI32IntegerAttr(toFloor));
  Value allLanes = create<arith::ConstantOp>(b.getI16IntegerAttr(-1));
  Value currentRounding = create<arith::ConstantOp>(b.getI32IntegerAttr(4));
  return LLVM::CallIntrinsicOp::create(b, loc, f32, b.getStringAttr("llvm.x86.avx512.mask.reduce.ps.512"),
                                       ValueRange{x, mode, x, allLanes, currentRounding})
      .getResults();
}

Arithmetic::NearestPower Arithmetic::nearestPower(Value x, int64_t bias) {
  Value allBias = literal(roundingBias + static_cast<double>(bias));
  Value biased = mulAdd(x, literal(log2e), allBias);
  return {sub(biased, allBias), biased};
}

Arithmetic::Reduced Arithmetic::reduce(Value x, int64_t bias) {
  const NearestPower nearest = nearestPower(x, bias);
  Value n = nearest.power;
  return {nearest, mulSub(mulSub(x, n, literal(ln2High)), n, literal(ln2Low))};
}

Value Arithmetic::expm1Reduced(Value r) {
  Value p = polynomial(r, {1.381439972e-03f, 8.368811570e-03f, 4.166839644e-02f, 1.666651964e-01f, 4.999999404e-01f});
  return mulAdd(mul(r, r), p, r);
}

Value Arithmetic::exp(Value x) {
  // Beyond these bounds the result is 0 or infinity; the comparisons let NaN pass.
  x = select(compare(Predicate::OLT, x, -105), literal(-105), x);
  x = select(compare(Predicate::OGT, x, 89.5), literal(89.5), x);
  Reduced r = reduce(x);
  return scale(add(expm1Reduced(r.rest), literal(1)), r.power, r.biased);
}

/// e^x for x <= 0 and NaN. For n from -152 to 0 the factor 2^(n + raisedBy) is a normal number, and the product with
/// it, too, so that the one rounding of a denormal result comes last, as in exp().
Value Arithmetic::expAtMostOne(Value x) {
  if (hasScaling())
    return exp(x);
  constexpr int raisedBy = 64;
  const Reduced r = reduce(select(compare(Predicate::OLT, x, -105), literal(-105), x), exponentBias + raisedBy);
  Value raised = mul(add(expm1Reduced(r.rest), literal(1)), powerOfTwo(r.biased));
  return mul(raised, literal(std::ldexp(1.0, -raisedBy)));
}

/// e^x where that is a normal number, so that one factor 2^n is enough, and 0 for x from -88 to -87.7; NaN stays NaN.
/// With an instruction for scaling it is 2^y with y = x · log2 e, exact at 0. y is rounded, so that the error grows
/// with |y|: about |y| / 2 units in the last place, 1.6 for x in [-1, 0], and for no x below 0 more than 1.2 · 2^-24 in
/// all.
Value Arithmetic::normalExp(Value x) {
  if (hasScaling()) {
    Value y = mul(x, literal(log2e));
    return scale(polynomial(fractionOf(y), {2.156597184e-04f, 1.248228946e-03f, 9.673775174e-03f, 5.548618361e-02f,
                                            2.402290851e-01f, 6.931470633e-01f, 1.0f}),
                 y, {});
  }
  Reduced r = reduce(x, exponentBias);
  return mul(add(expm1Reduced(r.rest), literal(1)), powerOfTwo(r.biased));
}

/// 2^x for -126 to 126, within five units in the last place; NaN stays NaN.
Value Arithmetic::exp2(Value x) {
  if (hasScaling()) { // scales by the power's floor
    Value fraction = fractionOf(x);
    return scale(polynomial(fraction, {1.867130050e-03f, 9.017030708e-03f, 5.579991266e-02f, 2.401644439e-01f,
                                       6.931512952e-01f, 1.0f}),
                 x, {});
  }
  Value biased = add(x, literal(roundingBias)), n = sub(biased, literal(roundingBias));
  Value power = polynomial(
      sub(x, n), {1.112550730e-03f, 9.666282684e-03f, 5.557400361e-02f, 2.402235121e-01f, 6.931428313e-01f, 1.0f});
  return scale(power, n, biased);
}

/// x = n · ln 2 + r: 2^n and e^-r for x held between -105 and 44, beyond which sigmoid(x) is 0 and 1. 2^n is raised by
/// 2^sigmoidRaisedBy, which keeps it, its sum with e^-r and the reciprocal of that normal numbers.
Arithmetic::Powers Arithmetic::exactPowersOf(Value x) {
  x = select(compare(Predicate::OLT, x, -105), literal(-105), x); // NaN stays
  x = select(compare(Predicate::OGT, x, 44), literal(44), x);
  auto [n, biased] = nearestPower(x, exponentBias + sigmoidRaisedBy);
  Value minusRest = mulAdd(n, literal(ln2Low), mulAdd(n, literal(ln2High), create<arith::NegFOp>(x)));
  return {powerOfTwo(biased), add(expm1Reduced(minusRest), literal(1))};
}

// sigmoid(x) = 1 / (1 + 2^-n · e^-r) = 2^n / (2^n + e^-r), with no choice by the sign of x.
Value Arithmetic::sigmoid(Value x) {
  const Powers powers = exactPowersOf(x);
  return div(powers.ofWhole, mulAdd(powers.ofRest, literal(std::ldexp(1.0, sigmoidRaisedBy)), powers.ofWhole));
}

std::pair<Value, Value> Arithmetic::sigmoids(Value x) {
  const Powers powers = exactPowersOf(x);
  Value raised = mul(powers.ofRest, literal(std::ldexp(1.0, sigmoidRaisedBy)));
  Value reciprocal = div(literal(1), add(powers.ofWhole, raised));
  return {mul(powers.ofWhole, reciprocal), mul(raised, reciprocal)};
}

// With y = x · log2 e = n + f, n a whole number, sigmoid(x) = 1 / (1 + 2^-n · 2^-f) = 2^n / (2^n + 2^-f), which does
// not overflow for small x, and sigmoid(-x) = 2^-f / (2^n + 2^-f). For large x 2^64, or 2^126, is enough.
Arithmetic::Powers Arithmetic::powersOf(Value x, bool isMirrored, double most) {
  Value y = mul(x, literal(isMirrored ? -log2e : log2e));
  y = select(compare(Predicate::OGT, y, most), literal(most), y); // NaN stays
  return {scale(literal(1), y, {}), polynomial(fractionOf(y), {-9.387883474e-04f, 9.188611992e-03f, -5.527972430e-02f,
                                                               2.401721925e-01f, -6.931422353e-01f, 9.999999404e-01f})};
}

Value Arithmetic::nearSigmoid(Value x, bool isMirrored) {
  const Powers powers = powersOf(x, isMirrored, 64);
  return div(powers.ofWhole, add(powers.ofWhole, powers.ofRest));
}

std::pair<Value, Value> Arithmetic::nearSigmoids(Value x) {
  const Powers powers = powersOf(x, false, 126);
  Value reciprocal = div(literal(1), add(powers.ofWhole, powers.ofRest));
  return {mul(powers.ofWhole, reciprocal), mul(powers.ofRest, reciprocal)};
}

Value Arithmetic::log(Value x) {
  constexpr double smallestNormal = 1.17549435e-38;
  Value denormal = compare(Predicate::OLT, x, smallestNormal);
  Value scaled = select(denormal, mul(x, literal(8388608)), x);
  // x = m · 2^e with m in [sqrt(1/2), sqrt(2))
  Value bits = cast(i32, scaled);
  Value e = create<arith::ShRSIOp>(create<arith::SubIOp>(bits, integer(i32, 0x3f3504f3)), integer(i32, 23));
  Value m = cast(f32, create<arith::SubIOp>(bits, create<arith::ShLIOp>(e, integer(i32, 23))));
  Value power = sub(create<arith::SIToFPOp>(f32, e), select(denormal, literal(23), literal(0)));
  Value f = sub(m, literal(1)), square = mul(f, f);
  Value p = polynomial(f, {6.757530570e-02f, -1.169432476e-01f, 1.189352497e-01f, -1.240308657e-01f, 1.421855241e-01f,
                           -1.666809022e-01f, 2.000216693e-01f, -2.500000894e-01f, 3.333331048e-01f});
  Value small = mulAdd(mul(square, f), p, mul(power, literal(ln2Low)));
  Value y = mulAdd(power, literal(ln2High), add(f, mulSub(small, square, literal(0.5))));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  y = select(compare(Predicate::OEQ, x, infinity), x, y);
  y = select(compare(Predicate::OEQ, x, 0), literal(-infinity), y);
  return select(compare(Predicate::ULT, x, 0), literal(std::numeric_limits<double>::quiet_NaN()), y);
}

// tanh |x| = m / (m + 2) with m = e^2|x| - 1, which is exact to its own size near 0 too.
Value Arithmetic::tanh(Value x) {
  Value a = magnitude(x), t = add(a, a);
  t = select(compare(Predicate::OGT, t, 20), literal(20), t); // 1 - tanh(10) is below half a unit of 1
  Reduced r = reduce(t, exponentBias);
  Value two = powerOfTwo(r.biased); // 2^n for n in 0..29
  Value m = mulAdd(two, expm1Reduced(r.rest), sub(two, literal(1)));
  return copySign(div(m, add(m, literal(2))), x);
}

Value Arithmetic::erf(Value x) {
  Value z = mul(x, x), a = magnitude(x);
  Value p = polynomial(z, {7.853857824e-05f, -8.010192541e-04f, 5.188327748e-03f, -2.685381100e-02f, 1.128358543e-01f,
                           -3.761262596e-01f, 1.283791661e-01f});
  Value small = mulAdd(x, p, x);
  Value t = select(compare(Predicate::OGT, a, 4), literal(4), a); // 1 - erf(4) is below half a unit of 1
  Value q = polynomial(t, {1.396244443e-05f, -3.505920467e-04f, 3.757476807e-03f, -2.401006967e-02f, 1.065308675e-01f,
                           6.349695325e-01f, 1.128694296e+00f});
  Value large = sub(literal(1), exp(sub(literal(0), mul(t, q))));
  return select(compare(Predicate::OLT, a, 1), small, copySign(large, x));
}

/// As m = 2^n · (e^rest - 1) + (2^n - 1), halved, so that 2^n stays in range up to the largest result.
Value Arithmetic::expm1(Value x) {
  Value held = select(compare(Predicate::OLT, x, -18), literal(-18), x); // e^-18 is below half a unit of -1
  held = select(compare(Predicate::OGT, held, 88.8), literal(88.8), held);
  Reduced r = reduce(held, exponentBias - 1);
  Value half = powerOfTwo(r.biased); // 2^(n - 1)
  Value m = mulAdd(half, expm1Reduced(r.rest), sub(half, literal(0.5)));
  return copySign(add(m, m), x);
}

/// ln u + (what rounding 1 + x to u has lost) / u.
Value Arithmetic::log1p(Value x) {
  Value u = add(x, literal(1));
  Value lost = select(compare(Predicate::OGE, x, 1), sub(literal(1), sub(u, x)), sub(x, sub(u, literal(1))));
  Value y = add(log(u), div(lost, u));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  y = select(compare(Predicate::OEQ, x, -1), literal(-infinity), y);
  Value isItself = create<arith::OrIOp>(compare(Predicate::OEQ, x, 0), compare(Predicate::OEQ, x, infinity));
  return select(isItself, x, y);
}

/// log2 of a positive f64 number, normal and finite, with a relative error of 2^-37.
Value Arithmetic::log2Wide(Value x) {
  // x = m · 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 (s + s³/3 + s⁵/5 + …) with s = (m - 1) / (m + 1)
  Value bits = cast(i64, x);
  Value e = create<arith::ShRSIOp>(create<arith::SubIOp>(bits, integer(i64, 0x3fe6a09e667f3bcd)), integer(i64, 52));
  Value m = cast(f64, create<arith::SubIOp>(bits, create<arith::ShLIOp>(e, integer(i64, 52))));
  Value s = div(sub(m, literal(f64, 1)), add(m, literal(f64, 1))), z = mul(s, s);
  Value sum = literal(f64, 1.0 / 15);
  for (int odd = 13; odd >= 1; odd -= 2)
    sum = mulAdd(sum, z, literal(f64, 1.0 / odd));
  return mulAdd(mul(s, sum), literal(f64, 2 * log2e), create<arith::SIToFPOp>(f64, e));
}

/// The logarithm and its multiple are computed in f64, so that an exponent of up to 128 keeps f32's digits after the
/// point. Special values are those of C's pow.
Value Arithmetic::pow(Value x, Value y) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), bias = 6755399441055744.0; // 1.5 · 2^52
  Value a = magnitude(x), isZero = compare(Predicate::OEQ, a, 0), isInfinite = compare(Predicate::OEQ, a, infinity);
  Value logarithm = log2Wide(create<arith::ExtFOp>(f64, a));
  logarithm = select(isZero, literal(f64, -infinity), select(isInfinite, literal(f64, infinity), logarithm));
  Value t = mul(create<arith::ExtFOp>(f64, y), logarithm);
  t = select(compare(Predicate::OEQ, a, 1), literal(f64, 0), t); // an infinite exponent too
  t = select(compare(Predicate::OLT, t, -200), literal(f64, -200), t);
  t = select(compare(Predicate::OGT, t, 200), literal(f64, 200), t);
  Value n = sub(add(t, literal(f64, bias)), literal(f64, bias)), power = create<arith::TruncFOp>(f32, n);
  Value rest = create<arith::TruncFOp>(f32, mul(sub(t, n), literal(f64, std::numbers::ln2)));
  Value result = scale(add(expm1Reduced(rest), literal(1)), power, add(power, literal(roundingBias)));

  Value isSmall = compare(Predicate::OLT, magnitude(y), 16777216.0); // larger numbers are whole and even
  Value whole = create<arith::FPToSIOp>(i32, select(isSmall, y, literal(0)));
  Value hasFraction = create<arith::CmpFOp>(Predicate::UNE, create<arith::SIToFPOp>(f32, whole), y);
  hasFraction = both(hasFraction, negated(compare(Predicate::OGE, magnitude(y), 16777216.0)));
  Value isOdd =
      create<arith::CmpIOp>(arith::CmpIPredicate::ne, create<arith::AndIOp>(whole, integer(i32, 1)), integer(i32, 0));
  result = select(both(isOdd, negated(hasFraction)), copySign(result, x), result);
  Value isNegative = both(compare(Predicate::OLT, x, 0), negated(isInfinite));
  Value isNan = create<arith::OrIOp>(create<arith::CmpFOp>(Predicate::UNE, x, x), both(isNegative, hasFraction));
  isNan = create<arith::OrIOp>(isNan, create<arith::CmpFOp>(Predicate::UNE, y, y));
  result = select(isNan, literal(std::numeric_limits<double>::quiet_NaN()), result);
  Value isOne = create<arith::OrIOp>(compare(Predicate::OEQ, x, 1), compare(Predicate::OEQ, y, 0));
  return select(isOne, literal(1), result);
}

/// x - k · y, exactly, for x >= y > 0 in f64 with the digits of f32 numbers or of what this gave: k is x / y cut to 29
/// digits and to a whole number, so that k · y and the difference have at most 53. It is below x / 2^27 or below y.
Value Arithmetic::restWide(Value x, Value y) {
  Value k = cast(f64, create<arith::AndIOp>(cast(i64, div(x, y)), integer(i64, -(int64_t(1) << 24))));
  Value isLarge = compare(Predicate::OGE, k, 4503599627370496.0); // 2^52: whole
  Value nearest = sub(add(k, literal(f64, 4503599627370496.0)), literal(f64, 4503599627370496.0));
  nearest = select(less(k, nearest), sub(nearest, literal(f64, 1)), nearest);
  Value rest = sub(x, mul(select(isLarge, k, nearest), y));
  return select(compare(Predicate::OLT, rest, 0), add(rest, y), rest); // the quotient may have been rounded up
}

/// The rest of the division rounded towards 0, exactly: a step of restWide, and more where the quotient is large.
Value Arithmetic::remainder(Value x, Value y) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value a = create<arith::ExtFOp>(f64, magnitude(x)), b = create<arith::ExtFOp>(f64, magnitude(y));
  Value isDefined = both(compare(Predicate::OLT, a, infinity), compare(Predicate::OGT, b, 0));
  auto isOpen = [&](Value rest) { return both(isDefined, create<arith::CmpFOp>(Predicate::OGE, rest, b)); };
  auto loop = scf::WhileOp::create(
      this->b, loc, TypeRange{f64}, ValueRange{a},
      [&](OpBuilder &, Location, ValueRange rest) { create<scf::ConditionOp>(isAny(isOpen(rest[0])), rest); },
      [&](OpBuilder &, Location, ValueRange rest) {
        create<scf::YieldOp>(ValueRange{select(isOpen(rest[0]), restWide(rest[0], b), rest[0])});
      });
  Value rest = copySign(create<arith::TruncFOp>(f32, loop.getResult(0)), x);
  return select(isDefined, rest, literal(std::numeric_limits<double>::quiet_NaN()));
}

/// Where there is no instruction for it. Below 2^23 adding and subtracting that number rounds to the nearest one.
Value Arithmetic::whole(Value x, Rounding rounding) {
  Value a = magnitude(x), one = literal(1);
  Value nearest = sub(add(a, literal(8388608)), literal(8388608)), y;
  if (rounding == Rounding::trunc)
    nearest = select(less(a, nearest), sub(nearest, one), nearest);
  y = copySign(nearest, x);
  if (rounding == Rounding::floor)
    y = select(less(x, y), sub(y, one), y);
  else if (rounding == Rounding::ceil)
    y = select(less(y, x), add(y, one), y);
  return select(compare(Predicate::OLT, a, 8388608), copySign(y, x), x);
}

/// For 2^24 <= |x| < inf. x = ±m · 2^k with m below 2^24, so the first k binary digits of 1/(2 pi) make whole turns and
/// the next 96 give the rest to 2^-63 turns; no float is nearer to a multiple of pi/2 than 2^-33 turns.
Arithmetic::Angle Arithmetic::reduceLargeAngle(Value x) {
  static constexpr int64_t digits[] = {0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770,
                                       0x36d8a566, 0x4f10e410, 0x7f9458ea};
  auto shift = [&](Value value, Value count) { return create<arith::ShRUIOp>(value, count); };
  auto left = [&](Value value, Value count) { return create<arith::ShLIOp>(value, count); };
  auto both = [&](Value value, int64_t mask) { return create<arith::AndIOp>(value, integer(i64, mask)); };
  Value bits = both(create<arith::ExtUIOp>(i64, cast(i32, x)), 0x7fffffff);
  Value m = create<arith::OrIOp>(both(bits, 0x7fffff), integer(i64, 0x800000));
  Value k = create<arith::SubIOp>(shift(bits, integer(i64, 23)), integer(i64, 150)); // 1..104
  Value digit = shift(k, integer(i64, 5)), offset = both(k, 31);
  auto window = [&](int first) { // 32 binary digits from position k + 32 · first
    Value pair;
    for (int i = 3; i >= 0; --i) {
      Value here = integer(i64, digits[first + i] << 32 | digits[first + i + 1]);
      Value isHere = create<arith::CmpIOp>(arith::CmpIPredicate::eq, digit, integer(i64, i));
      pair = pair ? select(isHere, here, pair) : here;
    }
    return shift(left(pair, offset), integer(i64, 32));
  };
  Value turns = left(create<arith::MulIOp>(m, window(0)), integer(i64, 32)); // in 2^-64 turns, whole turns overflow
  turns = create<arith::AddIOp>(turns, create<arith::MulIOp>(m, window(1)));
  turns = create<arith::AddIOp>(turns, shift(create<arith::MulIOp>(m, window(2)), integer(i64, 32)));
  Value quadrant = shift(create<arith::AddIOp>(turns, integer(i64, int64_t(1) << 61)), integer(i64, 62));
  Value rest = create<arith::SubIOp>(turns, left(quadrant, integer(i64, 62)));
  rest = mul(create<arith::SIToFPOp>(f64, rest), literal(f64, std::ldexp(2 * std::numbers::pi, -64)));
  Value magnitude = create<arith::TruncFOp>(f32, rest), positive = create<arith::TruncIOp>(i32, quadrant);
  Value negative = compare(Predicate::OLT, x, 0);
  return {select(negative, create<arith::NegFOp>(magnitude), magnitude),
          select(negative, create<arith::SubIOp>(integer(i32, 0), positive), positive)};
}

/// In f64, where the products of the quotient and the parts of pi/2 are exact below 2^24; a branch, seldom taken,
/// beyond.
Arithmetic::Angle Arithmetic::reduceAngle(Value x) {
  constexpr double bias = 6755399441055744.0; // 1.5 · 2^52
  Value wide = create<arith::ExtFOp>(f64, x);
  Value biased = mulAdd(wide, literal(f64, 0.63661977236758134), literal(f64, bias));
  Value n = sub(biased, literal(f64, bias));
  for (double part : {1.570796325802803, 9.9209357916352214e-10, 5.1701829817941051e-19})
    wide = mulSub(wide, n, literal(f64, part));
  Angle near = {create<arith::TruncFOp>(f32, wide), create<arith::TruncIOp>(i32, cast(i64, biased))};

  Value a = magnitude(x);
  constexpr double infinity = std::numeric_limits<double>::infinity(); // and NaN stay near: their rest is NaN
  Value large = create<arith::AndIOp>(compare(Predicate::OGE, a, 16777216.0), compare(Predicate::OLT, a, infinity));
  auto branch = scf::IfOp::create(
      b, loc, isAny(large),
      [&](OpBuilder &, Location) {
        Angle far = reduceLargeAngle(x);
        create<scf::YieldOp>(
            ValueRange{select(large, far.rest, near.rest), select(large, far.quadrant, near.quadrant)});
      },
      [&](OpBuilder &, Location) { create<scf::YieldOp>(ValueRange{near.rest, near.quadrant}); });
  return {branch.getResult(0), branch.getResult(1)};
}

/// sin(x + quarterTurns · pi/2).
Value Arithmetic::sine(Value x, int64_t quarterTurns) {
  auto [r, quadrant] = reduceAngle(x);
  quadrant = create<arith::AddIOp>(quadrant, integer(i32, quarterTurns));

  Value z = mul(r, r);
  Value sine = mulAdd(mul(r, z), polynomial(z, {-1.951519953e-04f, 8.332160302e-03f, -1.666665524e-01f}), r);
  sine = copySign(sine, r); // the sum has lost the sign of -0
  Value cosine = polynomial(z, {2.443306039e-05f, -1.388731529e-03f, 4.166664556e-02f});
  cosine = mulAdd(mul(z, z), cosine, mulSub(literal(1), z, literal(0.5)));
  auto bit = [&](int64_t mask) {
    Value masked = create<arith::AndIOp>(quadrant, integer(i32, mask));
    return create<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, integer(i32, 0));
  };
  Value y = select(bit(1), cosine, sine);
  return select(bit(2), create<arith::NegFOp>(y), y);
}

} // namespace

void expandMath(Operation *root, const VectorTarget &target) {
  SmallVector<Operation *> found;
  root->walk([&](Operation *op) {
    if (isa<math::ExpOp, math::Exp2Op, math::LogOp, math::TanhOp, math::SinOp, math::CosOp, math::ErfOp, math::ExpM1Op,
            math::Log1pOp, math::PowFOp, arith::RemFOp>(op) ||
        (!target.hasFma && isa<math::FloorOp, math::CeilOp, math::RoundEvenOp, math::TruncOp>(op)))
      found.push_back(op);
  });
  for (Operation *op : found) {
    OpBuilder builder(op);
    Arithmetic a(builder, op->getLoc(), op->getResult(0).getType(), target);
    Value x = op->getOperand(0), y;
    if (isa<math::ExpOp>(op))
      y = op->hasAttr(isNormalExpAttr)      ? a.normalExp(x)
          : op->hasAttr(isAtMostOneExpAttr) ? a.expAtMostOne(x)
                                            : a.exp(x);
    else if (isa<math::Exp2Op>(op))
      y = a.exp2(x);
    else if (isa<math::LogOp>(op))
      y = a.log(x);
    else if (isa<math::TanhOp>(op))
      y = a.tanh(x);
    else if (isa<math::ErfOp>(op))
      y = a.erf(x);
    else if (isa<math::ExpM1Op>(op))
      y = a.expm1(x);
    else if (isa<math::Log1pOp>(op))
      y = a.log1p(x);
    else if (isa<math::PowFOp>(op))
      y = a.pow(x, op->getOperand(1));
    else if (isa<arith::RemFOp>(op))
      y = a.remainder(x, op->getOperand(1));
    else if (isa<math::FloorOp>(op))
      y = a.whole(x, Arithmetic::Rounding::floor);
    else if (isa<math::CeilOp>(op))
      y = a.whole(x, Arithmetic::Rounding::ceil);
    else if (isa<math::RoundEvenOp>(op))
      y = a.whole(x, Arithmetic::Rounding::even);
    else if (isa<math::TruncOp>(op))
      y = a.whole(x, Arithmetic::Rounding::trunc);
    else
      y = a.sine(x, isa<math::CosOp>(op) ? 1 : 0);
    op->getResult(0).replaceAllUsesWith(y);
    op->erase();
  }
}

Value nearExp(LaneBuilder &b, Value x) {
  return b.create<math::Exp2Op>(b.create<arith::MulFOp>(x, b.literal(x.getType(), log2e)));
}

Value sigmoid(LaneBuilder &b, Value x) {
  return Arithmetic(b, x.getType()).sigmoid(x);
}

std::pair<Value, Value> sigmoids(LaneBuilder &b, Value x) {
  return Arithmetic(b, x.getType()).sigmoids(x);
}

Value nearSigmoid(LaneBuilder &b, Value x, bool isMirrored) {
  return Arithmetic(b, x.getType()).nearSigmoid(x, isMirrored);
}

std::pair<Value, Value> nearSigmoids(LaneBuilder &b, Value x) {
  return Arithmetic(b, x.getType()).nearSigmoids(x);
}

void addFastMathFlags(Operation *root, arith::FastMathFlags flags) {
  root->walk([&](arith::ArithFastMathInterface op) {
    // Conversions are the roundings that the graph asks for.
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) || op->removeAttr(writtenOutAttr))
      return;
    arith::FastMathFlags own = op.getFastMathFlagsAttr().getValue();
    op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(root->getContext(), own | flags));
  });
}

} // namespace tcc::cpu
