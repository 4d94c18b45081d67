// What the ranks of a run exchange.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

inline constexpr int64_t mostRanks = 4096;

/// The ways to exchange, by their names in a plan's JSON. The meaning is that of the op of the same name.
enum class Exchange : uint8_t { shard, allToAll, allGather, allReduce };
inline constexpr std::string_view exchangeNames[] = {"shard", "all_to_all", "all_gather", "all_reduce"};

/// A collective: all ranks of the run come to it in the same order. The rank itself is known when the step runs; the
/// plan of ranks that do alike is the same.
struct CollectiveCall {
  static constexpr KindWords words{"collective", "collective", StepPart::copies};

  std::string exchange; ///< one of exchangeNames
  int64_t ranks = 1;
  int64_t rows = 1;            ///< shard: of the source; each rank has its share of them
  std::vector<int64_t> pieces; ///< all_to_all: how many each rank has
  int64_t own = 1;             ///< and this one
  std::vector<BufferId> sources, targets;
  BufferId scratch = noBuffer; ///< all_to_all: what is sent, by rank and then by piece
  int64_t order = 0;  ///< its place among those that ranks come to in a step, the same on all of them; 0: it has none
  int64_t flight = 0; ///< 0: it is over when the next instruction starts; else when the wait of this number ends
  bool operator==(const CollectiveCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.text("exchange", call.exchange);
    fields.integer("ranks", call.ranks, 1, mostRanks);
    fields.integer("rows", call.rows, 1, maxPlanBytes);
    fields.integers("pieces", call.pieces, mostRanks, 1, mostRanks);
    fields.integer("own", call.own, 1, mostRanks);
    fields.buffers("in", call.sources);
    fields.buffers("out", call.targets);
    fields.buffer("scratch", call.scratch);
    fields.integer("order", call.order, 0, maxPlanItems);
    fields.integer("flight", call.flight, 0, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    for (auto &source : call.sources)
      visit(source, BufferUse{.read = true});
    for (auto &target : call.targets)
      visit(target, BufferUse{.written = true});
    if (call.scratch != noBuffer)
      visit(call.scratch, BufferUse{.written = true, .scratch = true});
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &plan) const;

  /// Of a valid call.
  Exchange kind() const;
  /// Bytes that the rank sends to others; of an all_reduce what the usual algorithms send, in two passes.
  int64_t sentBytes(const PlanLists &plan) const;
};

/// The end of a collective that is in flight: it stands in the same list of instructions (a part of a branch or loop,
/// or the plan's). In between nothing else touches what the collective writes, nor writes what it reads; and the wait
/// names the same buffers, so they are in use until here.
struct WaitCall {
  static constexpr KindWords words{"wait", "wait", StepPart::copies};

  int64_t flight = 1;
  std::vector<BufferId> sources, targets;
  BufferId scratch = noBuffer;
  bool operator==(const WaitCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.integer("flight", call.flight, 1, maxPlanItems);
    fields.buffers("in", call.sources);
    fields.buffers("out", call.targets);
    fields.buffer("scratch", call.scratch);
  }
  static void visitBuffers(auto &call, const PlanLists &plan, auto &&visit) {
    CollectiveCall::visitBuffers(call, plan, visit);
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &) const { return {}; } // flights.h compares it with what it ends
};

} // namespace tcc::runtime
