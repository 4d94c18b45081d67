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

} // namespace tcc::runtime
