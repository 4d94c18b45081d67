// rangesOf: the ranges in which the values of a compute node lie, whatever its operands are. A divisor that is known to
// be far from 0 and from infinity needs no slow path.
#pragma once
#include "ir/scalar_steps.h"
#include <limits>

namespace tcc::cuda {

/// The value is NaN or lies in [low, high].
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  /// Whether reciprocal_f32 (device/generic.cuh) can be used for every value of the range.
  bool hasPlainReciprocal() const;
};

/// The ranges of a node's operands, of which nothing is known, and then of the values of its steps, with the numbers of
/// ScalarSteps. Integers have no range.
std::vector<ValueRange> rangesOf(const ScalarSteps &steps, size_t operands);

} // namespace tcc::cuda
