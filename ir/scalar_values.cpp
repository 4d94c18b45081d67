// Scalar steps computed on the host, a step at a time over all elements. Numbers are kept as double, which holds every
// f32 and the integers that are allowed here; what a step makes of floats is rounded to f32, as on every target.
#include "ir/scalar_steps.h"
#include <algorithm>
#include <cmath>

namespace tcc {
namespace {

using Numbers = std::vector<double>;

float larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b))
    return std::nanf("");
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}

float smaller(float a, float b) {
  return -larger(-a, -b);
}

/// The value of a step from those of its operands, element by element.
class Elements {
public:
  Elements(const ScalarStep &step, llvm::ArrayRef<Numbers> values) : operands(facts(step.opcode).operands) {
    for (unsigned i = 0; i < operands; ++i) {
      of[i] = &values[step.operands[i]];
      if (of[i]->size() != 1)
        count = of[i]->size();
    }
  }

  /// fn of the operands as floats; the result is rounded to f32 by its type.
  template <typename Fn>
  Numbers floats(Fn &&fn) const {
    return numbers([&](double a, double b) { return fn(static_cast<float>(a), static_cast<float>(b)); });
  }
  /// fn of the operands as they are: of integers, or where floats are not rounded.
  template <typename Fn>
  Numbers numbers(Fn &&fn) const {
    Numbers result(count);
    for (size_t i = 0; i < count; ++i)
      result[i] = static_cast<double>(fn(at(0, i), operands > 1 ? at(1, i) : 0));
    return result;
  }
  Numbers select() const {
    Numbers result(count);
    for (size_t i = 0; i < count; ++i)
      result[i] = at(0, i) != 0 ? at(1, i) : at(2, i);
    return result;
  }

private:
  unsigned operands;
  const Numbers *of[3] = {};
  size_t count = 1;

  double at(unsigned operand, size_t element) const {
    const Numbers &numbers = *of[operand];
    return numbers[numbers.size() == 1 ? 0 : element];
  }
};

int64_t integer(double number) {
  return static_cast<int64_t>(number);
}

/// The step's values. Integers may become larger here than their type or a double holds; isHeld finds those.
Numbers valuesOf(const ScalarStep &step, llvm::ArrayRef<Numbers> values) {
  const Elements of(step, values);
  switch (step.opcode) {
    using enum Opcode;
  case constant:
    return {facts(step.type).isFloat ? step.literal.asFloat() : static_cast<double>(step.literal.asInteger())};
  case addF:
    return of.floats([](float a, float b) { return a + b; });
  case subF:
    return of.floats([](float a, float b) { return a - b; });
  case mulF:
    return of.floats([](float a, float b) { return a * b; });
  case divF:
    return of.floats([](float a, float b) { return a / b; });
  case negF:
    return of.floats([](float a, float) { return -a; });
  case absF:
    return of.floats([](float a, float) { return std::abs(a); });
  case maxF:
    return of.floats(larger);
  case minF:
    return of.floats(smaller);
  case sqrtF:
    return of.floats([](float a, float) { return std::sqrt(a); });
  case floorF:
    return of.floats([](float a, float) { return std::floor(a); });
  case ceilF:
    return of.floats([](float a, float) { return std::ceil(a); });
  case roundF:
    return of.floats([](float a, float) { return std::nearbyint(a); });
  case truncF:
    return of.floats([](float a, float) { return std::trunc(a); });
  case remF:
    return of.floats([](float a, float b) { return std::fmod(a, b); });
  case addI:
    return of.numbers(std::plus<>());
  case subI:
    return of.numbers(std::minus<>());
  case mulI:
    return of.numbers(std::multiplies<>());
  case divI:
    return of.numbers([](double a, double b) { return integer(a) / integer(b); });
  case remI:
    return of.numbers([](double a, double b) { return integer(a) % integer(b); });
  case absI:
    return of.numbers([](double a, double) { return std::abs(a); });
  case maxI:
    return of.numbers([](double a, double b) { return std::max(a, b); });
  case minI:
    return of.numbers([](double a, double b) { return std::min(a, b); });
  case andI:
    return of.numbers([](double a, double b) { return integer(a) & integer(b); });
  case orI:
    return of.numbers([](double a, double b) { return integer(a) | integer(b); });
  case xorI:
    return of.numbers([](double a, double b) { return integer(a) ^ integer(b); });
  case eqF:
  case eqI:
    return of.numbers(std::equal_to<>());
  case neF:
  case neI:
    return of.numbers(std::not_equal_to<>());
  case ltF:
  case ltI:
    return of.numbers(std::less<>());
  case leF:
  case leI:
    return of.numbers(std::less_equal<>());
  case gtF:
  case gtI:
    return of.numbers(std::greater<>());
  case geF:
  case geI:
    return of.numbers(std::greater_equal<>());
  case select:
    return of.select();
  case floatToInt:
    return of.numbers([](double a, double) { return std::trunc(a); });
  case intToFloat:
    return of.numbers([](double a, double) { return static_cast<float>(a); });
  case extendSigned:
  case extendZero:      // of an i1
  case unsignedToFloat: // of an i1
  case truncate:        // of what is not too large for the type: isHeld
    return of.numbers([](double a, double) { return a; });
  case expF:
  case logF:
  case tanhF:
  case sinF:
  case cosF:
  case erfF:
  case expm1F:
  case log1pF:
  case powF:
  case bitcast:
    break;
  }
  return {};
}

/// Whether all numbers are in the type's range, and so small that no double was rounded on the way.
bool isHeld(const Numbers &numbers, ElementType type) {
  if (facts(type).isFloat || type == ElementType::i1)
    return true;
  const double most = std::ldexp(1.0, type == ElementType::i32 ? 31 : 53);
  return std::all_of(numbers.begin(), numbers.end(), [&](double number) { return -most <= number && number < most; });
}

} // namespace

bool ScalarSteps::isExact() const {
  return std::all_of(steps.begin(), steps.end(), [](const ScalarStep &step) {
    switch (step.opcode) {
      using enum Opcode;
    case expF:
    case logF:
    case tanhF:
    case sinF:
    case cosF:
    case erfF:
    case expm1F:
    case log1pF:
    case powF:
    case bitcast:
      return false;
    default:
      return true;
    }
  });
}

std::optional<std::vector<double>> ScalarSteps::exactValues(llvm::ArrayRef<llvm::ArrayRef<double>> operands) const {
  std::vector<Numbers> values;
  for (llvm::ArrayRef<double> numbers : operands)
    values.emplace_back(numbers.begin(), numbers.end());
  for (const ScalarStep &step : steps) {
    values.push_back(valuesOf(step, values));
    if (step.opcode != Opcode::constant && !isHeld(values.back(), step.type))
      return std::nullopt;
  }
  return std::move(values[result]);
}

} // namespace tcc
