// separateValues: a plan without reuse of memory, for checks. Each value of the arena gets a range of its own. If a
// step's bits then change, or if an access outside a range is found, memory was planned or used wrongly.
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

/// The separate plan of `plan`. Bytes that are read belong to the value of the instruction that wrote them last; a
/// result that shares its operand's bytes belongs to the operand's value; everything else is a new value.
SeparatePlan separateValues(const Plan &plan);

} // namespace tcc::runtime
