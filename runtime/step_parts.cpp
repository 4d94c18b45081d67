#include "runtime/step_parts.h"
#include "runtime/plan_uses.h"
#include <algorithm>

namespace tcc::runtime {
StepParts stepParts(const Plan &plan, size_t outputs) {
  const size_t all = plan.instructions.size();
  StepParts parts{std::vector<size_t>(outputs, 0), all, std::vector<size_t>(plan.inputs.size(), all)};
  size_t begin = 0, end = 0; // of the outermost branch or loop that i is a part of: it runs as a whole
  for (size_t i = 0; i < all; ++i) {
    if (i >= end) {
      begin = i;
      end = i + 1 + partsOf(plan.instructions[i]);
    }
    forEachUse(plan, plan.instructions[i], [&](BufferId id, const BufferUse &use) {
      const Buffer &buffer = plan.buffers[id];
      if (buffer.space == Space::input)
        parts.firstRead[buffer.index] = std::min(parts.firstRead[buffer.index], begin);
      else if (use.written && buffer.space == Space::output && buffer.index < outputs)
        parts.ready[buffer.index] = end;
      else if (use.written && buffer.space == Space::state)
        parts.firstStateWrite = std::min(parts.firstStateWrite, begin);
    });
  }
  for (size_t i = 1; i < outputs; ++i)
    parts.ready[i] = std::max(parts.ready[i], parts.ready[i - 1]);
  return parts;
}

} // namespace tcc::runtime
