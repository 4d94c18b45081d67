// Some instructions of a plan as a plan of their own, over memory that stays; for check_device.cpp.
#pragma once
#include "runtime/device/device.h"
#include "runtime/plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace tcc {

/// A plan of some instructions of another, in which everything lies in states: the other's blocks.
class PartialPlan {
public:
  PartialPlan(const runtime::Plan &given, llvm::ArrayRef<runtime::DeviceMemory> blocks) : given(given) {
    plan.name = given.name;
    plan.alignment = given.alignment;
    plan.threads = given.threads;
    for (auto [i, block] : llvm::enumerate(blocks))
      plan.states.push_back({std::to_string(i), runtime::DType::i1, {block.bytes}});
  }

  template <typename BlockOf>
  void add(runtime::Instruction instruction, BlockOf &&blockOf) {
    const auto use = [&](runtime::BufferId &id) {
      if (id == runtime::noBuffer)
        return;
      auto [known, inserted] = buffers.try_emplace(id, static_cast<runtime::BufferId>(plan.buffers.size()));
      if (inserted) {
        runtime::Buffer buffer = given.buffers[id];
        if (buffer.space == runtime::Space::table)
          buffer.index = tableOf(buffer.index);
        else
          buffer = {runtime::Space::state, static_cast<uint32_t>(blockOf(buffer)), buffer.offset, buffer.bytes};
        plan.buffers.push_back(buffer);
      }
      id = known->second;
    };
    if (auto *launch = std::get_if<runtime::LaunchCall>(&instruction.call)) {
      launch->kernel = kernelOf(launch->kernel);
      for (runtime::PointerSlot &slot : launch->pointerSlots)
        use(slot.buffer);
      for (runtime::MapSlot &slot : launch->mapSlots)
        use(slot.buffer);
    } else if (auto *product = std::get_if<runtime::MatmulCall>(&instruction.call)) {
      for (runtime::BufferId *id :
           {&product->a, &product->b, &product->c, &product->bias, &product->addend, &product->aux})
        use(*id);
      useScratch(product->scratch);
    } else if (auto *copy = std::get_if<runtime::CopyCall>(&instruction.call)) {
      use(copy->source);
      use(copy->target);
    } else if (auto *fill = std::get_if<runtime::FillCall>(&instruction.call)) {
      use(fill->target);
    }
    plan.instructions.push_back(std::move(instruction));
    // Slots of tables last: their buffers may be new.
    for (; filledTables < plan.tables.size(); ++filledTables)
      for (runtime::PointerSlot &slot : plan.tables[filledTables].slots)
        use(slot.buffer);
  }

  runtime::Plan plan;
  std::vector<uint32_t> modules; // of the other's code, in the order of this one's

private:
  uint32_t tableOf(uint32_t index) {
    plan.tables.push_back(given.tables[index]);
    return static_cast<uint32_t>(plan.tables.size() - 1);
  }
  uint32_t kernelOf(uint32_t index) {
    auto [known, inserted] = kernels.try_emplace(index, static_cast<uint32_t>(plan.kernels.size()));
    if (inserted) {
      runtime::KernelCode kernel = given.kernels[index];
      const auto place = llvm::find(modules, kernel.module);
      if (place == modules.end())
        modules.push_back(kernel.module);
      kernel.module = static_cast<uint32_t>(llvm::find(modules, kernel.module) - modules.begin());
      plan.kernels.push_back(std::move(kernel));
    }
    return known->second;
  }
  /// Products' scratch lies in an arena; nothing is kept there.
  void useScratch(runtime::BufferId &id) {
    if (id == runtime::noBuffer)
      return;
    const int64_t bytes = given.buffers[id].bytes;
    plan.arenaBytes = std::max(plan.arenaBytes, bytes);
    plan.buffers.push_back({runtime::Space::arena, 0, 0, bytes});
    id = static_cast<runtime::BufferId>(plan.buffers.size() - 1);
  }

  const runtime::Plan &given;
  std::map<runtime::BufferId, runtime::BufferId> buffers;
  std::map<uint32_t, uint32_t> kernels;
  size_t filledTables = 0;
};

} // namespace tcc
