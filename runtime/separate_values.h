// separateValues: a plan that never reuses memory, for checks. Each value of the arena gets a range of its own. If the
// step's results then have other bits, or if an access outside a range is found, memory was planned or used wrongly.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

struct SeparatePlan {
  Plan plan; ///< valid; its arena is the ranges below, one after another
  struct Range {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Range> values; ///< in the arena's order; each of them may become an allocation of its own
};

/// The separate plan of `plan`. Bytes that are read belong to the value of the instruction that wrote them last; a
/// result that shares its operand's bytes belongs to the operand's value; everything else is a new value.
SeparatePlan separateValues(const Plan &plan);

} // namespace tcc::runtime
