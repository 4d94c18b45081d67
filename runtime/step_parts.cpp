#include "runtime/step_parts.h"
#include "runtime/describe_memory.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

/// The buffers that an instruction of a CPU names.
struct Named {
  std::vector<BufferId> operator()(const KernelCall &call) const {
    std::vector<BufferId> named;
    for (const Segment &segment : call.segments)
      named.insert(named.end(), segment.args.begin(), segment.args.end());
    return named;
  }
  std::vector<BufferId> operator()(const MatmulCall &call) const {
    return {call.a, call.b, call.bias, call.addend, call.aux};
  }
  std::vector<BufferId> operator()(const CopyCall &call) const { return {call.source}; }
  std::vector<BufferId> operator()(const FillCall &) const { return {}; }
  std::vector<BufferId> operator()(const CustomCall &call) const {
    std::vector<BufferId> named;
    for (const CustomTensor &tensor : call.inputs)
      named.push_back(tensor.buffer);
    return named;
  }
  std::vector<BufferId> operator()(const BranchCall &call) const { return {call.predicate}; }
  std::vector<BufferId> operator()(const LoopCall &call) const {
    std::vector<BufferId> named;
    for (const LoopSlice &slice : call.slices)
      named.push_back(slice.source);
    return named;
  }
  std::vector<BufferId> operator()(const LaunchCall &call) const {
    std::vector<BufferId> named;
    for (const PointerSlot &slot : call.pointerSlots)
      named.push_back(slot.buffer);
    for (const MapSlot &slot : call.mapSlots)
      named.push_back(slot.buffer);
    return named;
  }
};

} // namespace

StepParts stepParts(const Plan &plan, size_t asked) {
  const size_t all = plan.instructions.size();
  StepParts parts{std::vector<size_t>(asked, 0), all, std::vector<size_t>(plan.inputs.size(), all)};
  size_t begin = 0, end = 0; // of the outermost branch or loop that i is a part of: it runs as a whole
  for (size_t i = 0; i < all; ++i) {
    if (i >= end) {
      begin = i;
      end = i + 1 + partsOf(plan.instructions[i]);
    }
    for (BufferId id : std::visit(Named(), plan.instructions[i].call))
      if (id != noBuffer && plan.buffers[id].space == Space::input)
        parts.firstRead[plan.buffers[id].index] = std::min(parts.firstRead[plan.buffers[id].index], begin);
    for (BufferId id : writtenBuffers(plan, plan.instructions[i])) {
      const Buffer &buffer = plan.buffers[id];
      if (buffer.space == Space::output && buffer.index < asked)
        parts.ready[buffer.index] = end;
      else if (buffer.space == Space::state)
        parts.firstStateWrite = std::min(parts.firstStateWrite, begin);
    }
  }
  for (size_t i = 1; i < asked; ++i)
    parts.ready[i] = std::max(parts.ready[i], parts.ready[i - 1]);
  return parts;
}

} // namespace tcc::runtime
