// Elementwise ops and literals: one element at a time.
#include "ir/emit.h"
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

bool isInteger(const RefTensor &tensor) {
  return isa<IntegerType>(tensor.element());
}

uint64_t bitsOf(double integer) {
  return static_cast<uint64_t>(static_cast<int64_t>(integer));
}

template <typename Op>
void addUnary(Registry &registry, double (*function)(double)) {
  add<Op>(registry, [function](Call &call, Op) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = function(call.in(0).data[i]);
  });
}

template <typename Op>
void addBinary(Registry &registry, double (*onFloats)(double, double), uint64_t (*onIntegers)(uint64_t, uint64_t)) {
  add<Op>(registry, [=](Call &call, Op) {
    const RefTensor &a = call.in(0), &b = call.in(1);
    RefTensor &result = call.addResult(a.shape());
    for (int64_t i = 0; i < result.size(); ++i) {
      if (isInteger(a))
        result.data[i] = wrapInteger(onIntegers(bitsOf(a.data[i]), bitsOf(b.data[i])), a.element());
      else
        result.data[i] = onFloats(a.data[i], b.data[i]);
    }
  });
}

int64_t asSigned(uint64_t bits) {
  return static_cast<int64_t>(bits);
}

bool holds(Predicate predicate, double a, double b) {
  switch (predicate) {
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  case Predicate::lt:
    return a < b;
  case Predicate::le:
    return a <= b;
  case Predicate::gt:
    return a > b;
  case Predicate::ge:
    return a >= b;
  }
  llvm_unreachable("a predicate that Ops.td does not list");
}

/// Conversion to an integer type: truncation of floats (NaN gives 0, what does not fit the nearest value; emitters may
/// differ there), the low bits of integers.
double toInteger(double value, bool fromFloat, Type to) {
  if (to.isInteger(1))
    return value != 0;
  if (!fromFloat)
    return wrapInteger(bitsOf(value), to);
  if (std::isnan(value))
    return 0;
  double limit = std::ldexp(1.0, to.getIntOrFloatBitWidth() - 1);
  double largest = to.isInteger(32) ? limit - 1 : std::nextafter(limit, 0.0);
  return std::clamp(std::trunc(value), -limit, largest);
}

double signOf(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/// The rest of a division that is rounded down.
double remainderOf(double x, double y) {
  double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

double floorQuotient(double x, double y) {
  if (y == 0)
    return x / y;
  double rest = std::fmod(x, y), whole = std::nearbyint((x - rest) / y);
  if (rest != 0 && (rest < 0) != (y < 0))
    whole -= 1;
  return whole == 0 ? std::copysign(0.0, x / y) : whole;
}

/// The rest of a division of integers; 0 if y is 0.
uint64_t restOf(uint64_t x, uint64_t y) {
  return asSigned(y) == 0 || asSigned(y) == -1 ? 0 : asSigned(x) % asSigned(y);
}
uint64_t remainderOf(uint64_t x, uint64_t y) {
  uint64_t rest = restOf(x, y);
  return rest != 0 && (asSigned(rest) < 0) != (asSigned(y) < 0) ? rest + y : rest;
}
uint64_t floorQuotient(uint64_t x, uint64_t y) {
  if (asSigned(y) == 0)
    return 0;
  uint64_t difference = x - remainderOf(x, y);
  return asSigned(y) == -1 ? 0 - difference : static_cast<uint64_t>(asSigned(difference) / asSigned(y));
}

void addConstant(Registry &registry) {
  add<ConstantOp>(registry, [](Call &call, ConstantOp op) {
    auto literal = cast<DenseElementsAttr>(op.getValue());
    RefTensor &result = call.addResult(literal.getType().getShape());
    bool isFloat = isa<FloatType>(literal.getElementType()), isBool = literal.getElementType().isInteger(1);
    auto read = [&](Attribute value) -> double {
      if (isFloat)
        return cast<FloatAttr>(value).getValue().convertToDouble();
      APInt bits = cast<IntegerAttr>(value).getValue();
      return isBool ? bits.getZExtValue() : static_cast<double>(bits.getSExtValue());
    };
    if (literal.isSplat() && result.size() > 0)
      std::fill(result.data.begin(), result.data.end(), read(literal.getSplatValue<Attribute>()));
    else
      for (auto [i, value] : llvm::enumerate(literal.getValues<Attribute>()))
        result.data[i] = read(value);
  });
}

} // namespace

double roundedByBits(double x, int64_t bits) {
  const auto single = static_cast<double>(static_cast<float>(x));
  if (!std::isfinite(single) || single == 0)
    return single;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(single), -126) - 7); // between neighbours in bf16
  const double below = std::floor(std::fabs(single) / unit), way = std::fabs(single) / unit - below;
  const bool isUp = way * 65536 + static_cast<double>(bits & 65535) >= 65536;
  const double magnitude = (below + (isUp ? 1 : 0)) * unit;
  return std::copysign(magnitude < std::ldexp(1.0, 128) ? magnitude : std::numeric_limits<double>::infinity(), single);
}

void addElementwise(Registry &registry) {
  addUnary<ExpOp>(registry, [](double x) { return std::exp(x); });
  addUnary<LogOp>(registry, [](double x) { return std::log(x); });
  addUnary<SqrtOp>(registry, [](double x) { return std::sqrt(x); });
  addUnary<RsqrtOp>(registry, [](double x) { return 1 / std::sqrt(x); });
  addUnary<TanhOp>(registry, [](double x) { return std::tanh(x); });
  addUnary<SinOp>(registry, [](double x) { return std::sin(x); });
  addUnary<CosOp>(registry, [](double x) { return std::cos(x); });
  addUnary<ErfOp>(registry, [](double x) { return std::erf(x); });
  addUnary<Expm1Op>(registry, [](double x) { return std::expm1(x); });
  addUnary<Log1pOp>(registry, [](double x) { return std::log1p(x); });
  addUnary<FloorOp>(registry, [](double x) { return std::floor(x); });
  addUnary<CeilOp>(registry, [](double x) { return std::ceil(x); });
  addUnary<RoundOp>(registry, [](double x) { return std::nearbyint(x); });
  addUnary<TruncOp>(registry, [](double x) { return std::trunc(x); });
  addUnary<SignOp>(registry, signOf);
  add<NotOp>(registry, [](Call &call, NotOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = wrapInteger(~bitsOf(call.in(0).data[i]), result.element());
  });
  addUnary<DetachOp>(registry, [](double x) { return x; });
  addUnary<IsFiniteOp>(registry, [](double x) -> double { return std::isfinite(x); });

  add<NegOp>(registry, [](Call &call, NegOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i) {
      double x = call.in(0).data[i];
      result.data[i] = isInteger(result) ? wrapInteger(0 - bitsOf(x), result.element()) : -x;
    }
  });
  add<AbsOp>(registry, [](Call &call, AbsOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i) {
      double x = std::fabs(call.in(0).data[i]);
      result.data[i] = isInteger(result) ? wrapInteger(bitsOf(x), result.element()) : x;
    }
  });

  addBinary<AddOp>(registry, [](double a, double b) { return a + b; }, [](uint64_t a, uint64_t b) { return a + b; });
  addBinary<SubOp>(registry, [](double a, double b) { return a - b; }, [](uint64_t a, uint64_t b) { return a - b; });
  addBinary<MulOp>(registry, [](double a, double b) { return a * b; }, [](uint64_t a, uint64_t b) { return a * b; });
  addBinary<DivOp>(registry, [](double a, double b) { return a / b; }, nullptr);
  addBinary<MaximumOp>(
      registry, [](double a, double b) { return largerOf(a, b); },
      [](uint64_t a, uint64_t b) { return asSigned(a) > asSigned(b) ? a : b; });
  addBinary<MinimumOp>(
      registry, [](double a, double b) { return -largerOf(-a, -b); },
      [](uint64_t a, uint64_t b) { return asSigned(a) < asSigned(b) ? a : b; });
  addBinary<PowOp>(registry, [](double a, double b) { return std::pow(a, b); }, nullptr);
  addBinary<FmodOp>(registry, [](double a, double b) { return std::fmod(a, b); }, restOf);
  addBinary<RemainderOp>(registry, remainderOf, remainderOf);
  addBinary<FloorDivideOp>(registry, floorQuotient, floorQuotient);
  add<ClampOp>(registry, [](Call &call, ClampOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = -largerOf(-largerOf(call.in(0).data[i], call.in(1).data[i]), -call.in(2).data[i]);
  });
  addBinary<AndOp>(registry, nullptr, [](uint64_t a, uint64_t b) { return a & b; });
  addBinary<OrOp>(registry, nullptr, [](uint64_t a, uint64_t b) { return a | b; });
  addBinary<XorOp>(registry, nullptr, [](uint64_t a, uint64_t b) { return a ^ b; });

  add<CompareOp>(registry, [](Call &call, CompareOp op) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = holds(op.getPredicate(), call.in(0).data[i], call.in(1).data[i]);
  });
  add<SelectOp>(registry, [](Call &call, SelectOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = call.in(0).data[i] != 0 ? call.in(1).data[i] : call.in(2).data[i];
  });
  add<CastOp>(registry, [](Call &call, CastOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i) {
      double x = call.in(0).data[i];
      if (isInteger(call.in(0)) && !isInteger(result))
        x = static_cast<float>(x); // of which a 16-bit float is rounded
      result.data[i] = isInteger(result) ? toInteger(x, !isInteger(call.in(0)), result.element()) : x;
    }
  });
  add<CastByBitsOp>(registry, [](Call &call, CastByBitsOp) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = roundedByBits(call.in(0).data[i], static_cast<int64_t>(call.in(1).data[i]));
  });
  addConstant(registry);
}

} // namespace tcc::reference
