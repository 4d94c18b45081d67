#include "runtime/step_parts.h"
#include "runtime/plan_uses.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

/// Calls visit(begin, end, buffer, use) for each use of a buffer by an instruction. The outermost branch or loop that
/// the instruction is a part of runs as a whole, from `begin` to `end`.
template <typename Visit>
void forEachOuterUse(const Plan &plan, Visit &&visit) {
  size_t begin = 0, end = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (i >= end) {
      begin = i;
      end = i + 1 + partsOf(plan.instructions[i]);
    }
    forEachUse(plan, plan.instructions[i],
               [&](BufferId id, const BufferUse &use) { visit(begin, end, plan.buffers[id], use); });
  }
}

} // namespace

StepParts stepParts(const Plan &plan, size_t outputs) {
  const size_t all = plan.instructions.size();
  StepParts parts{std::vector<size_t>(outputs, 0), all, std::vector<size_t>(plan.inputs.size(), all)};
  forEachOuterUse(plan, [&](size_t begin, size_t end, const Buffer &buffer, const BufferUse &use) {
    if (buffer.space == Space::input)
      parts.firstRead[buffer.index] = std::min(parts.firstRead[buffer.index], begin);
    else if (use.written && buffer.space == Space::output && buffer.index < outputs)
      parts.ready[buffer.index] = end;
    else if (use.written && buffer.space == Space::state)
      parts.firstStateWrite = std::min(parts.firstStateWrite, begin);
  });
  for (size_t i = 1; i < outputs; ++i)
    parts.ready[i] = std::max(parts.ready[i], parts.ready[i - 1]);
  return parts;
}

TensorTimes tensorTimes(const Plan &plan) {
  TensorTimes times{std::vector<size_t>(plan.inputs.size(), 0),
                    std::vector<size_t>(plan.outputs.size(), plan.instructions.size())};
  forEachOuterUse(plan, [&](size_t begin, size_t end, const Buffer &buffer, const BufferUse &) {
    if (buffer.space == Space::input)
      times.inputEnds[buffer.index] = end;
    else if (buffer.space == Space::output)
      times.outputBegins[buffer.index] = std::min(times.outputBegins[buffer.index], begin);
  });
  return times;
}

} // namespace tcc::runtime
