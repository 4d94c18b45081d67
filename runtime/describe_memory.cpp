#include "runtime/describe_memory.h"
#include <algorithm>
#include <cstdio>
#include <set>

namespace tcc::runtime {
namespace {

std::string amount(int64_t bytes) {
  char text[32];
  if (bytes >= 1000000)
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) * 1e-6);
  else
    std::snprintf(text, sizeof text, "%lld bytes", static_cast<long long>(bytes));
  return text;
}

int64_t total(const std::vector<TensorSpec> &specs) {
  int64_t bytes = 0;
  for (const TensorSpec &spec : specs)
    bytes += spec.bytes();
  return bytes;
}

struct Writes {
  const Plan &plan;
  std::vector<BufferId> operator()(const KernelCall &call) const {
    std::vector<BufferId> written;
    for (const Segment &segment : call.segments)
      written.insert(written.end(), segment.args.end() - plan.kernels[call.kernel].results, segment.args.end());
    return written;
  }
  std::vector<BufferId> operator()(const MatmulCall &call) const {
    return call.scratch == noBuffer ? std::vector{call.c} : std::vector{call.c, call.scratch};
  }
  std::vector<BufferId> operator()(const CopyCall &call) const { return {call.target}; }
  std::vector<BufferId> operator()(const FillCall &call) const { return {call.target}; }
  std::vector<BufferId> operator()(const CustomCall &call) const {
    std::vector<BufferId> written;
    for (const CustomTensor &tensor : call.outputs)
      written.push_back(tensor.buffer);
    return written;
  }
  std::vector<BufferId> operator()(const BranchCall &) const { return {}; }
  std::vector<BufferId> operator()(const LoopCall &call) const {
    std::vector<BufferId> written;
    for (const LoopSlice &slice : call.slices)
      written.push_back(slice.target);
    return written;
  }
  std::vector<BufferId> operator()(const LaunchCall &call) const {
    std::vector<BufferId> written;
    auto take = [&](const auto &slots) {
      for (const auto &slot : slots)
        if (slot.written)
          written.push_back(slot.buffer);
    };
    take(call.pointerSlots);
    take(call.mapSlots);
    for (const PointerSlot &slot : call.pointerSlots) // what it writes through a table
      if (plan.buffers[slot.buffer].space == Space::table)
        take(plan.tables[plan.buffers[slot.buffer].index].slots);
    return written;
  }
};

} // namespace

std::vector<BufferId> writtenBuffers(const Plan &plan, const Instruction &instruction) {
  return std::visit(Writes{plan}, instruction.call);
}

std::string describeMemory(const Plan &plan) {
  std::vector<std::pair<int64_t, std::string>> values;
  for (auto [what, specs] : {std::pair{"input", &plan.inputs}, {"output", &plan.outputs}, {"state", &plan.states}})
    for (const TensorSpec &spec : *specs)
      values.emplace_back(spec.bytes(), std::string(what) + " `" + spec.name + "`");
  std::set<BufferId> seen;
  for (const Instruction &instruction : plan.instructions)
    for (BufferId id : writtenBuffers(plan, instruction))
      if (plan.buffers[id].space == Space::arena && seen.insert(id).second)
        values.emplace_back(plan.buffers[id].bytes, "a value of `" + instruction.label + "`");
  constexpr size_t most = 4;
  std::stable_sort(values.begin(), values.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  values.resize(std::min(values.size(), most));
  std::string text = "the step `" + plan.name + "` plans " + amount(plan.plannedBytes()) + ": arena " +
                     amount(plan.arenaBytes) + ", states " + amount(total(plan.states)) + ", inputs " +
                     amount(total(plan.inputs)) + ", outputs " + amount(total(plan.outputs));
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "; the largest values: ") + values[i].second + " " + amount(values[i].first);
  return text;
}

} // namespace tcc::runtime
