// (1) Every use of the arena by an instruction is a node. (2) Nodes that must share memory are joined: a read with the
// last writers of its bytes, a result with an operand of the same call that it overlaps. (3) Each set of joined nodes
// gets a range as large as they reach, at equal distances from each other as before. A branch or loop with all of its
// parts counts as one call, since the order in it is known only when it runs.
#include "runtime/separate_values.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace tcc::runtime {
namespace {

struct Use {
  BufferId *id; // in the new plan
  int64_t begin, end;
  bool read, written;
};

class Separation {
public:
  explicit Separation(const Plan &given) : given(given) { result.plan = given; }

  SeparatePlan run() {
    for (size_t i = 0; i < result.plan.instructions.size(); ++i) {
      Instruction &instruction = result.plan.instructions[i];
      if (!whole && partsOf(instruction) > 0)
        whole = {uses.size(), i + partsOf(instruction)};
      take(instruction);
      if (whole && whole->second == i) {
        const size_t first = whole->first;
        whole.reset();
        finish(first);
      }
    }
    assignRanges();
    return std::move(result);
  }

private:
  void use(BufferId &id, bool read, bool written) {
    if (given.buffers[id].space != Space::arena || given.buffers[id].bytes == 0)
      return;
    const Buffer &buffer = given.buffers[id];
    parents.push_back(uses.size());
    uses.push_back({&id, buffer.offset, buffer.offset + buffer.bytes, read, written});
  }

  void take(Instruction &instruction) {
    const bool isWait = std::holds_alternative<WaitCall>(instruction.call); // for what its collective writes
    size_t first = uses.size();
    uint32_t set = 0;
    visitBuffers(instruction, given.lists(), [&](BufferId &id, const BufferUse &how) {
      if (how.set != set) {
        finishSet(first);
        first = uses.size();
        set = how.set;
      }
      if (given.buffers[id].space == Space::table)
        takeTable(given.buffers[id].index);
      use(id, how.read || isWait, how.written);
    });
    finish(first);
  }
  // A table has one content for all launches: its slots are the same nodes each time.
  void takeTable(uint32_t index) {
    auto [known, inserted] = tableUses.try_emplace(index, uses.size());
    const size_t before = uses.size();
    for (PointerSlot &slot : result.plan.tables[index].slots)
      use(slot.buffer, slot.read, slot.written);
    for (size_t i = before; !inserted && i < uses.size(); ++i)
      join(i, known->second + (i - before));
  }

  void finish(size_t first) {
    finishSet(first);
    finishCall();
  }

  void finishSet(size_t first) {
    if (whole) // its end does
      return;
    joinReads(first);
    joinInPlace(first);
    pending.emplace_back(first, uses.size());
  }

  void joinReads(size_t first) {
    for (size_t i = first; i < uses.size(); ++i)
      if (uses[i].read)
        for (auto it = firstOverlap(uses[i]); it != writers.end() && it->first < uses[i].end; ++it)
          join(i, it->second.second);
  }

  void joinInPlace(size_t first) {
    for (size_t i = first; i < uses.size(); ++i)
      for (size_t j = first; j < i; ++j)
        if ((uses[i].written || uses[j].written) && uses[i].begin < uses[j].end && uses[j].begin < uses[i].end)
          join(i, j);
  }

  // What a call writes is there for later calls; its sets of tensors do not see each other's results.
  void finishCall() {
    for (auto [first, last] : pending)
      for (size_t i = first; i < last; ++i)
        if (uses[i].written)
          recordWriter(i);
    pending.clear();
  }

  using Writers = std::map<int64_t, std::pair<int64_t, size_t>>; // begin -> end, node

  Writers::iterator firstOverlap(const Use &use) {
    auto it = writers.upper_bound(use.begin);
    if (it != writers.begin() && std::prev(it)->second.first > use.begin)
      --it;
    return it;
  }

  void recordWriter(size_t node) {
    const Use &use = uses[node];
    for (auto it = firstOverlap(use); it != writers.end() && it->first < use.end;) {
      const auto [begin, rest] = *it;
      it = writers.erase(it);
      if (begin < use.begin)
        writers[begin] = {use.begin, rest.second};
      if (rest.first > use.end)
        it = writers.emplace(use.end, rest).first;
    }
    writers[use.begin] = {use.end, node};
  }

  size_t root(size_t node) {
    while (parents[node] != node)
      node = parents[node] = parents[parents[node]];
    return node;
  }
  void join(size_t a, size_t b) { parents[root(a)] = root(b); }

  void assignRanges() {
    std::map<size_t, std::pair<int64_t, int64_t>> reach; // root -> begin, end of all its nodes
    for (size_t i = 0; i < uses.size(); ++i) {
      auto [known, inserted] = reach.try_emplace(root(i), uses[i].begin, uses[i].end);
      known->second.first = std::min(known->second.first, uses[i].begin);
      known->second.second = std::max(known->second.second, uses[i].end);
    }
    std::map<size_t, int64_t> moved; // root -> by how much its nodes move
    int64_t arena = 0;
    for (auto &[node, range] : reach) {
      const int64_t begin = range.first / given.alignment * given.alignment; // so that offsets keep their alignment
      result.values.push_back({arena, range.second - begin});
      moved[node] = arena - begin;
      arena += (range.second - begin + given.alignment - 1) / given.alignment * given.alignment;
    }
    std::map<std::pair<int64_t, int64_t>, BufferId> known;
    for (size_t i = 0; i < uses.size(); ++i) {
      const int64_t offset = uses[i].begin + moved[root(i)], bytes = uses[i].end - uses[i].begin;
      auto [entry, inserted] = known.try_emplace({offset, bytes}, static_cast<BufferId>(result.plan.buffers.size()));
      if (inserted)
        result.plan.buffers.push_back({Space::arena, 0, offset, bytes});
      *uses[i].id = entry->second;
    }
    for (size_t i = 0; i < given.buffers.size(); ++i) // no longer named; inside whatever the arena is now
      if (Buffer &buffer = result.plan.buffers[i]; buffer.space == Space::arena)
        buffer.offset = buffer.bytes = 0;
    result.plan.arenaBytes = arena;
  }

  const Plan &given;
  SeparatePlan result;
  std::vector<Use> uses;
  std::vector<size_t> parents;
  std::optional<std::pair<size_t, size_t>> whole; // of the branch or loop at hand: its first use, its last instruction
  std::vector<std::pair<size_t, size_t>> pending;
  std::map<uint32_t, size_t> tableUses;
  Writers writers;
};

} // namespace

SeparatePlan separateValues(const Plan &plan) {
  return Separation(plan).run();
}

} // namespace tcc::runtime
