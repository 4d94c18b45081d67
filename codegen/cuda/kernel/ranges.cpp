#include "codegen/cuda/kernel/ranges.h"
#include <algorithm>
#include <cmath>

namespace tcc::cuda {
namespace {

/// The range from the least to the largest of these sums or products of bounds. If one of them is NaN, as ∞ - ∞ is,
/// nothing is known.
ValueRange spanning(std::initializer_list<double> bounds) {
  if (std::any_of(bounds.begin(), bounds.end(), [](double bound) { return std::isnan(bound); }))
    return {};
  return {std::min(bounds), std::max(bounds)};
}

ValueRange rangeOf(const ScalarStep &step, llvm::ArrayRef<ValueRange> values) {
  auto operand = [&](unsigned i) { return i < facts(step.opcode).operands ? values[step.operands[i]] : ValueRange(); };
  const ValueRange a = operand(0), b = operand(1), c = operand(2);
  switch (step.opcode) {
  case Opcode::constant: {
    const double number = step.literal.asFloat();
    return std::isnan(number) ? ValueRange() : ValueRange{number, number};
  }
  case Opcode::addF:
    return spanning({a.low + b.low, a.high + b.high});
  case Opcode::subF:
    return spanning({a.low - b.high, a.high - b.low});
  case Opcode::mulF:
    return spanning({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  case Opcode::negF:
    return {-a.high, -a.low};
  case Opcode::absF:
    return {std::max({a.low, -a.high, 0.0}), std::max(-a.low, a.high)};
  case Opcode::maxF:
    return {std::max(a.low, b.low), std::max(a.high, b.high)};
  case Opcode::minF:
    return {std::min(a.low, b.low), std::min(a.high, b.high)};
  case Opcode::expF:
    return {std::exp(a.low), std::exp(a.high)};
  case Opcode::select:
    return {std::min(b.low, c.low), std::max(b.high, c.high)};
  default:
    return {};
  }
}

} // namespace

bool ValueRange::hasPlainReciprocal() const {
  return low >= 0x1p-125 && high <= 0x1p125;
}

std::vector<ValueRange> rangesOf(const ScalarSteps &steps, size_t operands) {
  std::vector<ValueRange> ranges(operands);
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const ScalarStep &step = steps.steps[i];
    ValueRange range;
    if (facts(step.type).isFloat)
      range = rangeOf(step, ranges);
    ranges.push_back(range);
  }
  return ranges;
}

} // namespace tcc::cuda
