// A plan without reuse of memory, for checks: each value of the arena gets a range of its own. Where a step's bits
// change or something is touched outside, memory was planned or used wrongly.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

struct SeparatePlan {
  Plan plan; ///< valid; its arena is the ranges below, one after another
  struct Range {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Range> values; ///< in order; what lies in one value may lie in one allocation
};

/// What is read belongs to the value of those who wrote it last, and a result that shares its operand's bytes belongs
/// to its value; everything else is a new value.
SeparatePlan separateValues(const Plan &plan);

} // namespace tcc::runtime
