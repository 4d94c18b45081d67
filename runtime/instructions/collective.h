// What the ranks of a run exchange.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

inline constexpr int64_t mostRanks = 4096;
inline constexpr int64_t packedAlignment = 256; ///< each source of an all_to_all begins at a multiple of so many bytes

/// Where a source may begin, after one that ends at byte `end` of the piece.
constexpr int64_t packedAfter(int64_t end) {
  return (end + packedAlignment - 1) / packedAlignment * packedAlignment;
}

/// The ways to exchange, which mean what the op of the same name means. exchangeNames has their names in a plan's JSON.
enum class Exchange : uint8_t { shard, allToAll, allGather, allReduce };
inline constexpr std::string_view exchangeNames[] = {"shard", "all_to_all", "all_gather", "all_reduce"};

/// A collective. All ranks of the run come to their collectives in the same order. The call does not name its own rank,
/// which is known when the step runs; so ranks that compute the same have the same plan.
struct CollectiveCall {
  static constexpr KindWords words{"collective", "collective", StepPart::copies};

  std::string exchange; ///< one of exchangeNames
  int64_t ranks = 1;
  int64_t rows = 1;            ///< shard: rows of the source, of which each rank gets its share
  std::vector<int64_t> pieces; ///< all_to_all: how many pieces each rank has
  int64_t own = 1;             ///< all_to_all: how many pieces this rank has
  std::vector<BufferId> sources, targets;
  BufferId scratch = noBuffer; ///< all_to_all: the rank's only piece, or what others get, by rank and then by piece
  int64_t order = 0;  ///< its place among those that ranks come to in a step, the same on all of them; 0: it has none
  int64_t flight = 0; ///< 0: it is over when the next instruction starts; else when the WaitCall of this number ends
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

  /// The way to exchange; the call must be valid.
  Exchange kind() const;
  /// Whether the scratch of an all_to_all is the rank's only piece. Sources may lie in it, each at its own place, where
  /// nothing copies them.
  bool sendsOnePiece() const { return own == 1 && ranks > 1; }
  /// Bytes that the rank sends to others. For an all_reduce these are the bytes that the usual algorithms send in two
  /// passes.
  int64_t sentBytes(const PlanLists &plan) const;
};

/// Waits for the end of a collective that is in flight. It stands in the same list of instructions as the collective
/// (the plan's list, or one part of a branch or loop). Between the two no instruction touches what the collective
/// writes, and none writes what it reads. The wait names the collective's buffers again, so that they count as used
/// until here.
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
