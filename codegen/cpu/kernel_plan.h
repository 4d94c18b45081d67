// What is decided about a kernel's loops before any code is built: what threads divide, what is kept between passes,
// unrolling and column tiles. A function of the kernel alone, but for `steady`.
#pragma once
#include "ir/kernel_stages.h"

namespace tcc::cpu {

/// What threads may divide: rows (outer·rows), blocks of rows (outer) or column tiles (outer·columns/tile).
enum class Parallel : uint8_t { rows, outer, columns };
Parallel parallelOf(const KernelInfo &info);

/// One pass over the columns of a row, and what it keeps.
struct StagePlan : KernelStage {
  llvm::SmallVector<unsigned> kept; // nodes whose values the pass leaves in scratch rows

  bool hasPass() const { return !reductions.empty() || !stores.empty() || !columnResults.empty() || !kept.empty(); }
};

struct KernelPlan {
  std::vector<StagePlan> stages;             // KernelInfo::stages passes, then one entry with row nodes alone
  llvm::SmallVector<unsigned> constantNodes; // row-level nodes that depend on no row: computed once a call
  llvm::SmallVector<unsigned> rowStores;     // stores of one element a row
  std::vector<int> scratchSlot;              // per node: its scratch row, or -1
  std::vector<unsigned> keptFrom;            // per node with a scratch row: the stage that fills it
  unsigned scratchRows = 0;
  unsigned unroll = 1; // vectors in a loop body
};

/// `steady`: the order of a row's sums does not depend on what else the kernel computes.
KernelPlan planKernel(const KernelInfo &info, bool steady);

/// Columns at which a guard that looks at the column alone changes, ascending, within the row; none where there are too
/// many to give each part of the row loops of its own.
llvm::SmallVector<int64_t> guardCuts(const KernelInfo &info);

/// Whether the columns begin..end lie inside a derived axis; nothing where that is not the same for all of them.
std::optional<bool> isInside(const KernelInfo &info, unsigned derivedAxis, int64_t begin, int64_t end);

/// Columns of one item of a kernel with Parallel::columns: a tile of a row's columns.
int64_t columnTile(const KernelInfo &info);

} // namespace tcc::cpu
