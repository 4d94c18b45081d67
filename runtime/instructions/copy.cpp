#include "runtime/instructions/copy.h"

namespace tcc::runtime {

std::string CopyCall::validate(const PlanLists &plan) const {
  const int64_t from = plan.buffers[source].bytes, to = plan.buffers[target].bytes;
  if (from != to)
    return "copies " + std::to_string(from) + " bytes to " + std::to_string(to) + "; the sizes are equal";
  if (plan.overlap(source, target))
    return "source and target of a copy overlap";
  return {};
}

} // namespace tcc::runtime
