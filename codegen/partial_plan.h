// PartialPlan: makes a plan of its own from some instructions of a plan, whose memory stays from run to run; for
// check_device.cpp.
#pragma once
#include "runtime/device/device.h"
#include "runtime/plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace tcc {

/// A plan of some instructions of another plan. Every block of memory of the other plan is a state of this one, so that
/// its bytes can be read and written between runs; scratch alone lies in an arena.
class PartialPlan {
public:
  PartialPlan(const runtime::Plan &whole, llvm::ArrayRef<runtime::DeviceMemory> blocks) : whole(whole) {
    plan.name = whole.name;
    plan.alignment = whole.alignment;
    plan.threads = whole.threads;
    for (auto [i, block] : llvm::enumerate(blocks))
      plan.states.push_back({std::to_string(i), runtime::DType::i1, {block.bytes}});
  }

  template <typename BlockOf>
  void add(runtime::Instruction instruction, BlockOf &&blockOf) {
    const auto use = [&](runtime::BufferId &id) {
      auto [known, inserted] = buffers.try_emplace(id, static_cast<runtime::BufferId>(plan.buffers.size()));
      if (inserted) {
        runtime::Buffer buffer = whole.buffers[id];
        if (buffer.space == runtime::Space::table)
          buffer.index = tableOf(buffer.index);
        else
          buffer = {runtime::Space::state, static_cast<uint32_t>(blockOf(buffer)), buffer.offset, buffer.bytes};
        plan.buffers.push_back(buffer);
      }
      id = known->second;
    };
    // Buffers first: which of a kernel's arguments are results, the other plan's number of the kernel says.
    runtime::visitBuffers(instruction, whole.lists(), [&](runtime::BufferId &id, const runtime::BufferUse &how) {
      if (how.scratch)
        useScratch(id);
      else
        use(id);
    });
    runtime::visitKernels(instruction, [&](uint32_t &kernel) { kernel = kernelOf(kernel); });
    plan.instructions.push_back(std::move(instruction));
    // Slots of tables last: their buffers may be new.
    for (; filledTables < plan.tables.size(); ++filledTables)
      for (runtime::PointerSlot &slot : plan.tables[filledTables].slots)
        use(slot.buffer);
  }

  runtime::Plan plan;
  std::vector<uint32_t> modules; // for each code object of this plan, its number in the other plan

private:
  uint32_t tableOf(uint32_t index) {
    plan.tables.push_back(whole.tables[index]);
    return static_cast<uint32_t>(plan.tables.size() - 1);
  }
  uint32_t kernelOf(uint32_t index) {
    auto [known, inserted] = kernels.try_emplace(index, static_cast<uint32_t>(plan.kernels.size()));
    if (inserted) {
      runtime::KernelCode kernel = whole.kernels[index];
      const auto place = llvm::find(modules, kernel.module);
      if (place == modules.end())
        modules.push_back(kernel.module);
      kernel.module = static_cast<uint32_t>(llvm::find(modules, kernel.module) - modules.begin());
      plan.kernels.push_back(std::move(kernel));
    }
    return known->second;
  }
  /// Scratch lies in an arena; nothing is kept there.
  void useScratch(runtime::BufferId &id) {
    const int64_t bytes = whole.buffers[id].bytes;
    plan.arenaBytes = std::max(plan.arenaBytes, bytes);
    plan.buffers.push_back({runtime::Space::arena, 0, 0, bytes});
    id = static_cast<runtime::BufferId>(plan.buffers.size() - 1);
  }

  const runtime::Plan &whole;
  std::map<runtime::BufferId, runtime::BufferId> buffers;
  std::map<uint32_t, uint32_t> kernels;
  size_t filledTables = 0;
};

} // namespace tcc
