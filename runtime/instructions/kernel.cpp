#include "runtime/instructions/kernel.h"

namespace tcc::runtime {

std::string KernelCall::validate(const PlanLists &plan) const {
  if (granularity < 1 || granularity > maxPlanBytes)
    return "granularity is " + std::to_string(granularity) + "; 1 to 2^46 are possible";
  const KernelCode &code = plan.kernels[kernel];
  int64_t total = 0;
  for (const Segment &segment : segments) {
    if (segment.extent < 0 || segment.extent > maxPlanBytes || (total += segment.extent) > maxPlanBytes)
      return "extent is " + std::to_string(segment.extent) + "; 0 to 2^46 in all segments together are possible";
    if (segment.args.size() != code.arguments)
      return "a segment has " + std::to_string(segment.args.size()) + " arguments; kernel `" + code.symbol +
             "` takes " + std::to_string(code.arguments);
  }
  return {};
}

} // namespace tcc::runtime
