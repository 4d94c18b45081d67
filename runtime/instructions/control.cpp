#include "runtime/instructions/control.h"

namespace tcc::runtime {

std::string BranchCall::validate(const PlanLists &plan) const {
  if (plan.buffers[predicate].bytes != 1)
    return "the predicate has " + std::to_string(plan.buffers[predicate].bytes) + " bytes; it has one";
  return {};
}

std::string LoopCall::validate(const PlanLists &plan) const {
  if (count < 1 || count > maxTurns)
    return "it has " + std::to_string(count) + " turns; 1 to 2^31 are possible";
  for (const LoopSlice &slice : slices) {
    const int64_t whole = plan.buffers[slice.source].bytes, part = plan.buffers[slice.target].bytes;
    if (whole % count != 0 || whole / count != part)
      return "a slice has " + std::to_string(part) + " of " + std::to_string(whole) + " bytes; it is one of " +
             std::to_string(count) + " equal parts";
    if (plan.overlap(slice.source, slice.target))
      return "source and target of a slice overlap";
  }
  return {};
}

} // namespace tcc::runtime
