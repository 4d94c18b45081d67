// Most steps are monotonic in each operand while the others stay: the least and the largest result are then among those
// of the operands' ends, rounding included, since rounding keeps order. The few others have a rule each.
#include "ir/scalar_bounds.h"
#include <algorithm>
#include <cmath>

namespace tcc {
namespace {

using Bounds = std::optional<NumberRange>;

constexpr NumberRange falseOrTrue{0, 1};

bool isInfinite(const NumberRange &range) {
  return std::isinf(range.low) || std::isinf(range.high);
}

/// The least and the largest of what the step gives for the ends of its operands' ranges.
Bounds ofEnds(const ScalarStep &step, llvm::ArrayRef<NumberRange> operands) {
  ScalarSteps alone;
  alone.steps = {step};
  alone.result = static_cast<unsigned>(operands.size());
  std::vector<std::vector<double>> ends(operands.size());
  for (unsigned corner = 0; corner < 1u << operands.size(); ++corner)
    for (unsigned i = 0; i < operands.size(); ++i)
      ends[i].push_back(corner >> i & 1 ? operands[i].high : operands[i].low);
  llvm::SmallVector<llvm::ArrayRef<double>, 3> numbers;
  for (unsigned i = 0; i < operands.size(); ++i) {
    alone.steps[0].operands[i] = static_cast<uint8_t>(i);
    numbers.push_back(ends[i]);
  }
  const std::optional<std::vector<double>> results = alone.exactValues(numbers);
  if (!results || std::any_of(results->begin(), results->end(), [](double number) { return std::isnan(number); }))
    return std::nullopt;
  const auto [least, largest] = std::minmax_element(results->begin(), results->end());
  return NumberRange{*least, *largest};
}

Bounds ofEquality(const NumberRange &a, const NumberRange &b, bool isEqual) {
  if (a.high < b.low || b.high < a.low)
    return NumberRange::of(!isEqual);
  return a.isOne() && b.isOne() ? NumberRange::of(isEqual) : falseOrTrue;
}

Bounds ofLogic(const ScalarStep &step, const Bounds &a, const Bounds &b) {
  if (step.type != ElementType::i1)
    return std::nullopt;
  const double decides = step.opcode == Opcode::orI; // whatever the other operand is
  for (const Bounds &operand : {a, b})
    if (step.opcode != Opcode::xorI && operand && operand->isOne() && operand->low == decides)
      return operand;
  return a && b ? ofEnds(step, {*a, *b}) : falseOrTrue;
}

Bounds ofAbsolute(const ScalarStep &step, const NumberRange &a) {
  Bounds ends = ofEnds(step, a);
  if (ends && a.contains(0))
    ends->low = 0;
  return ends;
}

Bounds ofSelect(const Bounds &condition, const Bounds &onTrue, const Bounds &onFalse) {
  if (condition && !condition->contains(0))
    return onTrue;
  if (condition && condition->isOne())
    return onFalse;
  if (!onTrue || !onFalse)
    return std::nullopt;
  return NumberRange{std::min(onTrue->low, onFalse->low), std::max(onTrue->high, onFalse->high)};
}

/// The bounds of a division's rest: as long as all dividends have the same quotient, the rest grows with the dividend.
Bounds ofRest(const ScalarStep &step, const NumberRange &a, const NumberRange &b) {
  if (!b.isOne() || b.low < 1 || a.low < 0)
    return std::nullopt;
  const auto quotient = [&](double number) { return static_cast<int64_t>(number) / static_cast<int64_t>(b.low); };
  return quotient(a.low) == quotient(a.high) ? ofEnds(step, {a, b}) : NumberRange{0, b.low - 1};
}

/// Bounds of a step that has a range for each operand.
Bounds ofRanges(const ScalarStep &step, llvm::ArrayRef<NumberRange> operands) {
  const bool isExact = std::all_of(operands.begin(), operands.end(), [](const NumberRange &r) { return r.isOne(); });
  const bool mayBeNan = std::any_of(operands.begin(), operands.end(), isInfinite);
  switch (step.opcode) {
    using enum Opcode;
  case eqF:
  case eqI:
    return ofEquality(operands[0], operands[1], true);
  case neF:
  case neI:
    return ofEquality(operands[0], operands[1], false);
  case absF:
  case absI:
    return ofAbsolute(step, operands[0]);
  case remI:
    return ofRest(step, operands[0], operands[1]);
  case divF: // beside a divisor of 0, whose sign the range does not say
  case divI:
    if (operands[1].contains(0))
      return std::nullopt;
    [[fallthrough]];
  case addF:
  case subF:
  case mulF:
    return isExact || !mayBeNan ? ofEnds(step, operands) : std::nullopt;
  case remF:
    return isExact ? ofEnds(step, operands) : std::nullopt;
  case negF:
  case maxF:
  case minF:
  case sqrtF:
  case floorF:
  case ceilF:
  case roundF:
  case truncF:
  case ltF:
  case leF:
  case gtF:
  case geF:
  case addI:
  case subI:
  case mulI:
  case maxI:
  case minI:
  case ltI:
  case leI:
  case gtI:
  case geI:
  case floatToInt:
  case intToFloat:
  case unsignedToFloat:
  case extendSigned:
  case extendZero:
  case truncate:
    return ofEnds(step, operands);
  case constant:
  case andI:
  case orI:
  case xorI:
  case select: // boundsOf has these
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
  return std::nullopt;
}

Bounds ofStep(const ScalarStep &step, llvm::ArrayRef<Bounds> values) {
  const unsigned count = facts(step.opcode).operands;
  const auto operand = [&](unsigned i) -> const Bounds & { return values[step.operands[i]]; };
  switch (step.opcode) {
    using enum Opcode;
  case andI:
  case orI:
  case xorI:
    return ofLogic(step, operand(0), operand(1));
  case select:
    return ofSelect(operand(0), operand(1), operand(2));
  case constant:
    return ofEnds(step, {});
  default: {
    llvm::SmallVector<NumberRange, 3> ranges;
    for (unsigned i = 0; i < count; ++i) {
      if (!operand(i))
        return std::nullopt;
      ranges.push_back(*operand(i));
    }
    return ofRanges(step, ranges);
  }
  }
}

} // namespace

std::optional<NumberRange> boundsOf(const ScalarSteps &steps, llvm::ArrayRef<std::optional<NumberRange>> operands) {
  llvm::SmallVector<Bounds> values(operands);
  for (const ScalarStep &step : steps.steps)
    values.push_back(ofStep(step, values));
  return values[steps.result];
}

} // namespace tcc
