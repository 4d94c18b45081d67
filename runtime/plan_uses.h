// Which buffers an instruction uses and how: the one place that says it for each kind of call.
#pragma once
#include "runtime/plan.h"
#include <type_traits>

namespace tcc::runtime {

/// Calls visit(buffer, read, written) for each buffer that a call of a validated plan names, in the call's order; not
/// for noBuffer. Of a call that is not const, visit may change the buffer; those of tables are const.
template <typename Call, typename Visit>
void forEachUse(const Plan &plan, Call &call, Visit &&visit) {
  using Kind = std::remove_const_t<Call>;
  const auto use = [&](auto &id, bool read, bool written) {
    if (id != noBuffer)
      visit(id, read, written);
  };
  if constexpr (std::is_same_v<Kind, KernelCall>) {
    const KernelCode &code = plan.kernels[call.kernel];
    for (auto &segment : call.segments)
      for (size_t i = 0; i < segment.args.size(); ++i) {
        const bool isResult = i >= code.arguments - code.results;
        use(segment.args[i], !isResult, isResult);
      }
  } else if constexpr (std::is_same_v<Kind, MatmulCall>) {
    for (auto *operand : {&call.a, &call.b, &call.bias, &call.addend, &call.aux})
      use(*operand, true, false);
    use(call.c, call.desc.accumulate && call.addend == noBuffer, true);
    use(call.scratch, false, true);
  } else if constexpr (std::is_same_v<Kind, CopyCall>) {
    use(call.source, true, false);
    use(call.target, false, true);
  } else if constexpr (std::is_same_v<Kind, FillCall>) {
    use(call.target, false, true);
  } else if constexpr (std::is_same_v<Kind, CustomCall>) {
    for (auto &tensor : call.inputs)
      use(tensor.buffer, true, false);
    for (auto &tensor : call.outputs)
      use(tensor.buffer, false, true);
  } else if constexpr (std::is_same_v<Kind, BranchCall>) {
    use(call.predicate, true, false);
  } else if constexpr (std::is_same_v<Kind, LoopCall>) {
    for (auto &slice : call.slices) {
      use(slice.source, true, false);
      use(slice.target, false, true);
    }
  } else {
    static_assert(std::is_same_v<Kind, LaunchCall>);
    for (auto &slot : call.pointerSlots)
      use(slot.buffer, slot.read, slot.written);
    for (auto &slot : call.mapSlots)
      use(slot.buffer, true, slot.written);
    for (const PointerSlot &slot : call.pointerSlots)
      if (plan.buffers[slot.buffer].space == Space::table)
        for (const PointerSlot &each : plan.tables[plan.buffers[slot.buffer].index].slots)
          use(each.buffer, each.read, each.written);
  }
}

/// The same for whatever the instruction calls; not for its parts.
template <typename Visit>
void forEachUse(const Plan &plan, const Instruction &instruction, Visit &&visit) {
  std::visit([&](const auto &call) { forEachUse(plan, call, visit); }, instruction.call);
}

} // namespace tcc::runtime
