// Where the values of a compute node lie, whatever its operands are. What is known to be far from 0 and from infinity
// needs no slow path when it is divided by.
#pragma once
#include "ir/scalar_steps.h"
#include <limits>

namespace tcc::cuda {

/// A float that is not NaN lies in [low, high].
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  /// Whether reciprocal_f32 takes it (device/generic.cuh).
  bool hasPlainReciprocal() const;
};

/// The ranges of a node's operands, of which nothing is known, and of its steps' values, as numbered there. Integers
/// have none.
std::vector<ValueRange> rangesOf(const ScalarSteps &steps, size_t operands);

/// The number of the value x if step `step` computes -|x|, as x times a sign that is 1 where x is below 0 and -1
/// elsewhere: a product of that form has its gradient.
std::optional<unsigned> minusMagnitudeOf(const ScalarSteps &steps, size_t operands, size_t step);

} // namespace tcc::cuda
