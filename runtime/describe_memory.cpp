#include "runtime/describe_memory.h"
#include "runtime/plan_uses.h"
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

} // namespace

std::vector<BufferId> writtenBuffers(const Plan &plan, const Instruction &instruction) {
  std::vector<BufferId> buffers;
  forEachUse(plan, instruction, [&](BufferId id, const BufferUse &use) {
    if (use.written)
      buffers.push_back(id);
  });
  return buffers;
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
                     amount(plan.arenaBytes) + ", states " + amount(totalBytes(plan.states)) + ", inputs " +
                     amount(totalBytes(plan.inputs)) + ", outputs " + amount(totalBytes(plan.outputs));
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "; the largest values: ") + values[i].second + " " + amount(values[i].first);
  return text;
}

} // namespace tcc::runtime
