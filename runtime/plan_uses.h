// Which buffers an instruction uses and how: those that its call names, and those that the tables among them point to.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

/// Calls visit(buffer, BufferUse) for each buffer that an instruction of a validated plan uses: first those that the
/// call names, in its order, then those that tables point to. The instructions in its parts are not visited.
template <typename Visit>
void forEachUse(const Plan &plan, const Instruction &instruction, Visit &&visit) {
  visitBuffers(instruction, plan.lists(), visit);
  if (plan.tables.empty())
    return;
  visitBuffers(instruction, plan.lists(), [&](BufferId id, const BufferUse &) {
    if (plan.buffers[id].space == Space::table)
      for (const PointerSlot &slot : plan.tables[plan.buffers[id].index].slots)
        visit(slot.buffer, BufferUse{.read = slot.read, .written = slot.written});
  });
}

} // namespace tcc::runtime
