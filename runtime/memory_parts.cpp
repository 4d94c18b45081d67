// (1) Each value of the arena gets a range of its own (separate_values.h), so that a use names its value. (2) A value
// lives from its first use to its last. (3) The instruction over which most bytes live is the fullest.
#include "runtime/memory_parts.h"
#include "runtime/plan_uses.h"
#include "runtime/separate_values.h"
#include <algorithm>
#include <numeric>

namespace tcc::runtime {
namespace {

struct Value {
  int64_t bytes = 0, offset = 0;
  size_t first = SIZE_MAX, last = 0;
  bool updates = false, read = false;

  LiveValue live() const {
    using Kind = LiveValue::Kind;
    return {updates ? Kind::update : read ? Kind::value : Kind::scratch, bytes, first, last, offset};
  }
};

/// The ids of the buffers that an instruction uses, in forEachUse()'s order.
std::vector<BufferId> buffersOf(const Plan &plan, const Instruction &instruction) {
  std::vector<BufferId> ids;
  forEachUse(plan, instruction, [&](BufferId id, const BufferUse &) { ids.push_back(id); });
  return ids;
}

} // namespace

const char *name(LiveValue::Kind kind) {
  switch (kind) {
  case LiveValue::Kind::update:
    return "update";
  case LiveValue::Kind::scratch:
    return "scratch";
  case LiveValue::Kind::value:
    return "value";
  }
  return "";
}

std::vector<LiveValue> arenaValues(const Plan &given) {
  const SeparatePlan separate = separateValues(given);
  const Plan &plan = separate.plan;
  std::vector<Value> values;
  for (const SeparatePlan::Range &range : separate.values)
    values.push_back({.bytes = range.bytes});
  const auto numberAt = [&](int64_t offset) {
    const auto next = std::upper_bound(separate.values.begin(), separate.values.end(), offset,
                                       [](int64_t at, const SeparatePlan::Range &range) { return at < range.offset; });
    return static_cast<size_t>(next - separate.values.begin()) - 1;
  };
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    std::vector<Value *> used;
    bool writesState = false;
    const std::vector<BufferId> before = buffersOf(given, given.instructions[i]); // the same uses
    size_t use = 0;
    const auto *matmul = std::get_if<MatmulCall>(&plan.instructions[i].call);
    const BufferId packed = matmul ? matmul->packed : noBuffer;
    forEachUse(plan, plan.instructions[i], [&](BufferId id, const BufferUse &how) {
      const Buffer &buffer = plan.buffers[id], &placed = given.buffers[before[use++]];
      writesState |= how.written && buffer.space == Space::state;
      if (buffer.space != Space::arena || buffer.bytes == 0)
        return;
      const size_t number = numberAt(buffer.offset);
      Value &value = values[number];
      value.offset = placed.offset - (buffer.offset - separate.values[number].offset);
      value.first = std::min(value.first, i);
      value.last = i;
      value.read |= !how.written && id != packed;
      used.push_back(&value);
    });
    for (Value *value : used)
      value->updates |= writesState;
  }
  std::vector<LiveValue> list;
  for (const Value &value : values)
    if (value.first != SIZE_MAX)
      list.push_back(value.live());
  return list;
}

static std::vector<int64_t> inUse(const std::vector<LiveValue> &values, size_t instructions) {
  std::vector<int64_t> bytes(instructions + 1);
  for (const LiveValue &value : values) {
    bytes[value.maker] += value.bytes;
    bytes[value.last + 1] -= value.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back(); // nothing lives after the last one
  return bytes;
}

std::vector<int64_t> arenaInUse(const Plan &plan) {
  return inUse(arenaValues(plan), plan.instructions.size());
}

FullestMoment fullestMoment(const Plan &plan) {
  FullestMoment moment;
  if (plan.instructions.empty())
    return moment;
  const std::vector<LiveValue> values = arenaValues(plan);
  const std::vector<int64_t> bytes = inUse(values, plan.instructions.size());
  const auto most = std::max_element(bytes.begin(), bytes.end());
  moment.instruction = static_cast<size_t>(most - bytes.begin());
  moment.unused = plan.arenaBytes - *most;
  for (const LiveValue &value : values)
    if (value.maker <= moment.instruction && moment.instruction <= value.last)
      moment.values.push_back(value);
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
