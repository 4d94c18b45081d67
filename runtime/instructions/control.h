// Branches and loops, whose parts come after them in the plan's list. Parts nest.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

inline constexpr int64_t maxTurns = int64_t{1} << 31; ///< the most turns of a loop
inline constexpr size_t maxNesting = 64;              ///< how deep branches and loops may nest

/// A branch. If the byte of `predicate` is not 0, the next `then` instructions of the list run, else the `otherwise`
/// instructions after those. Only for devices that share the host's memory.
struct BranchCall {
  static constexpr KindWords words{"branch", "branch"};

  BufferId predicate = noBuffer; ///< one byte
  uint32_t then = 0, otherwise = 0;
  bool operator==(const BranchCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.buffer("predicate", call.predicate);
    fields.integer("then", call.then, 0, maxPlanItems);
    fields.integer("otherwise", call.otherwise, 0, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    visit(call.predicate, BufferUse{.read = true});
  }
  static void visitParts(auto &call, auto &&visit) {
    visit(call.then);
    visit(call.otherwise);
  }
  std::string validate(const PlanLists &plan) const;
};

/// A copy that a loop makes at the start of each turn. In turn i it copies part i of `source`, which consists of as
/// many equal parts as the loop has turns.
struct LoopSlice {
  BufferId source = noBuffer;
  BufferId target = noBuffer;
  bool operator==(const LoopSlice &) const = default;

  static void visitFields(auto &slice, auto &fields) {
    fields.buffer("source", slice.source);
    fields.buffer("target", slice.target);
  }
};

/// A loop. It runs the next `body` instructions `count` times. Each turn begins by copying its slices.
struct LoopCall {
  static constexpr KindWords words{"loop", "loop"};

  int64_t count = 1;
  uint32_t body = 0;
  std::vector<LoopSlice> slices;
  bool operator==(const LoopCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.integer("count", call.count, 1, maxTurns);
    fields.integer("body", call.body, 0, maxPlanItems);
    fields.list("slices", call.slices, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    for (auto &slice : call.slices) {
      visit(slice.source, BufferUse{.read = true});
      visit(slice.target, BufferUse{.written = true});
    }
  }
  static void visitParts(auto &call, auto &&visit) { visit(call.body); }
  std::string validate(const PlanLists &plan) const;
};

} // namespace tcc::runtime
