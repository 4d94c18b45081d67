// Bounds of what exact scalar steps give for all elements of a range at once.
#pragma once
#include "ir/scalar_steps.h"

namespace tcc {

/// A closed range of numbers, neither of whose ends is NaN.
struct NumberRange {
  double low = 0, high = 0;

  static NumberRange of(double number) { return {number, number}; }
  bool isOne() const { return low == high; }
  bool contains(double number) const { return low <= number && number <= high; }
};

/// A range in which the result lies whichever elements of their ranges the operands take; an operand without a range
/// may be anything, even NaN. Gives nothing where no such range follows from the ends of the operands' ranges alone.
std::optional<NumberRange> boundsOf(const ScalarSteps &steps, llvm::ArrayRef<std::optional<NumberRange>> operands);

} // namespace tcc
