// Recomputation: how much of a step is computed again instead of being kept, from nothing to all that can be. The
// pipeline's options carry one; codegen/compile_session.cpp tries those of recomputationChoices() until a plan fits.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <limits>
#include <string>
#include <vector>

namespace tcc {
struct PipelineOptions;

struct Recomputation {
  static constexpr int64_t allBlocks = std::numeric_limits<int64_t>::max();

  bool cheap = false;   // what elementwise kernels compute from values that are kept anyway
  int64_t blocks = 0;   // in so many of the first blocks: everything except what the next block reads
  bool borders = false; // what the next block reads as well: of n such borders about √n are kept

  bool isNone() const { return !cheap && blocks == 0; }
  bool operator==(const Recomputation &) const = default;
};

inline constexpr Recomputation cheapRecomputation{.cheap = true};
inline constexpr Recomputation blockRecomputation{.cheap = true, .blocks = Recomputation::allBlocks};
inline constexpr Recomputation fullRecomputation{.cheap = true, .blocks = Recomputation::allBlocks, .borders = true};

/// Marks a copy that `rematerialize` made of an op.
inline constexpr llvm::StringLiteral recomputedAttr = "tcc.recomputed";

/// The choices for a fused function, from none to most. Each computes again what the choice before it does, and more.
std::vector<Recomputation> recomputationChoices(mlir::func::FuncOp fused);

/// How much a fused function computes again.
struct RecomputationCost {
  int64_t ops = 0;
  double share = 0; // their time as a share of the time of all other ops, by the target's model
};
/// "36 ops again (time +19 %)"
std::string recomputationText(const RecomputationCost &cost);
RecomputationCost recomputationCost(mlir::func::FuncOp fused, const PipelineOptions &options);

} // namespace tcc
