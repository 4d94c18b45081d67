// KernelPlan: what is decided about a kernel's loops before any code is built: what threads divide, what is kept
// between passes, unrolling and column tiles. It depends only on the kernel, on what was chosen for it by measuring,
// and on `steady`.
#pragma once
#include "codegen/cpu/kernel_tuning.h"
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
  llvm::SmallVector<unsigned> constantNodes; // nodes that depend on no row and no column: computed once for a call
  llvm::SmallVector<unsigned> rowStores;     // stores of one element for each row
  std::vector<int> scratchSlot;              // for each node its scratch row, or -1
  std::vector<unsigned> keptFrom;            // for each node with a scratch row the stage that fills it
  unsigned scratchRows = 0;
  unsigned unroll = 1;       // vectors in a loop body
  int64_t prefetchBytes = 0; // KernelTuning::prefetchBytes
};

/// If `steady` is set, the order of a row's sums does not depend on what else the kernel computes.
KernelPlan planKernel(const KernelInfo &info, bool steady, const KernelTuning &tuning);

/// The columns within the row, ascending, at which a guard changes that depends on the column alone. The list is empty
/// if there are too many of them to give each part of the row its own loops.
llvm::SmallVector<int64_t> guardCuts(const KernelInfo &info);

/// The edges of vectors around these columns, for columns that are computed in any order. A copy, such as a
/// concatenation, has its own loops for more of them.
llvm::SmallVector<int64_t> vectorCuts(const KernelInfo &info, int64_t lanes);

/// Whether the columns begin..end lie inside a derived axis; nothing if that differs between them.
std::optional<bool> isInside(const KernelInfo &info, unsigned derivedAxis, int64_t begin, int64_t end);

/// The most columns of one item of a kernel with 16-bit column sums, which are added up in f32 on the thread's stack.
inline constexpr int64_t mostWideSums = 1 << 18;

/// Whether the node loads neighbouring elements of a tensor that a kernel reads once, from its begin to its end.
bool walksThroughMemory(const KernelInfo &info, const KernelNode &node);

/// Columns of one item of a kernel with Parallel::columns: a tile of a row's columns.
int64_t columnTile(const KernelInfo &info, const KernelTuning &tuning);

} // namespace tcc::cpu
