// kernelStages: what each pass over a row computes. All emitters share it. What is kept between passes, and how loops
// are built, each target decides.
#pragma once
#include "ir/kernel.h"

namespace tcc {

/// One pass over the columns of a row, with what happens once a row before it.
struct KernelStage {
  llvm::SmallVector<unsigned> rowNodes;      // nodes computed once a row, before the pass
  llvm::SmallVector<unsigned> reductions;    // rowReduce nodes that the pass accumulates
  llvm::SmallVector<unsigned> stores;        // stores of elements that the pass writes
  llvm::SmallVector<unsigned> columnResults; // stores that the pass accumulates over rows
};

struct KernelStages {
  std::vector<KernelStage> stages;           // KernelInfo::stages passes, then one entry with row nodes alone
  llvm::SmallVector<unsigned> constantNodes; // nodes that depend on no row and no column: computed once for a call
  llvm::SmallVector<unsigned> rowStores;     // stores of one element for each row
};

KernelStages kernelStages(const KernelInfo &info);

/// The first pass that can read a node's value. The value of a row reduction is ready in the pass after its own.
unsigned readyStage(const KernelInfo &info, unsigned node);

/// The first pass that can write a store: the one after the last row reduction that the store needs.
unsigned storeStage(const KernelInfo &info, const KernelStore &store);

} // namespace tcc
