// (1) Each value of the arena gets a range of its own (separate_values.h), so that a use names its value. (2) A value
// lives from its first use to its last. (3) The instruction over which most bytes live is the fullest.
#include "runtime/memory_parts.h"
#include "runtime/plan_uses.h"
#include "runtime/separate_values.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

struct Value {
  int64_t bytes = 0;
  size_t first = SIZE_MAX, last = 0;
  bool updates = false, read = false;
};

} // namespace

FullestMoment fullestMoment(const Plan &given) {
  const SeparatePlan separate = separateValues(given);
  const Plan &plan = separate.plan;
  std::vector<Value> values;
  for (const SeparatePlan::Range &range : separate.values)
    values.push_back({.bytes = range.bytes});
  const auto valueAt = [&](int64_t offset) -> Value & {
    const auto next = std::upper_bound(separate.values.begin(), separate.values.end(), offset,
                                       [](int64_t at, const SeparatePlan::Range &range) { return at < range.offset; });
    return values[static_cast<size_t>(next - separate.values.begin()) - 1];
  };
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    std::vector<Value *> used;
    bool writesState = false;
    forEachUse(plan, plan.instructions[i], [&](BufferId id, const BufferUse &use) {
      const Buffer &buffer = plan.buffers[id];
      writesState |= use.written && buffer.space == Space::state;
      if (buffer.space != Space::arena || buffer.bytes == 0)
        return;
      Value &value = valueAt(buffer.offset);
      value.first = std::min(value.first, i);
      value.last = i;
      value.read |= !use.written;
      used.push_back(&value);
    });
    for (Value *value : used)
      value->updates |= writesState;
  }

  std::vector<int64_t> change(plan.instructions.size() + 1);
  for (const Value &value : values)
    if (value.first != SIZE_MAX) {
      change[value.first] += value.bytes;
      change[value.last + 1] -= value.bytes;
    }
  int64_t live = 0, most = -1;
  size_t fullest = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (live += change[i]; live > most) {
      most = live;
      fullest = i;
    }
  FullestMoment moment;
  if (plan.instructions.empty())
    return moment;
  moment.instruction = fullest;
  moment.unused = given.arenaBytes - most;
  for (const Value &value : values)
    if (value.first <= fullest && fullest <= value.last) {
      using Kind = LiveValue::Kind;
      const Kind kind = value.updates ? Kind::update : value.read ? Kind::value : Kind::scratch;
      moment.values.push_back({kind, value.bytes, value.first});
    }
  return moment;
}

ArenaParts arenaParts(const Plan &plan) {
  ArenaParts parts;
  if (plan.instructions.empty())
    return parts;
  const FullestMoment moment = fullestMoment(plan);
  for (const LiveValue &value : moment.values)
    switch (value.kind) {
    case LiveValue::Kind::update:
      parts.updates += value.bytes;
      break;
    case LiveValue::Kind::scratch:
      parts.scratch += value.bytes;
      break;
    case LiveValue::Kind::value:
      parts.values += value.bytes;
      break;
    }
  parts.unused = moment.unused;
  parts.fullest = plan.instructions[moment.instruction].label;
  return parts;
}

} // namespace tcc::runtime
