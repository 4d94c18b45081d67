// stagedLoads: which tensors of a row go through shared memory on their way to registers. Copies into shared memory are
// in flight without registers that wait for them, so a whole row can be; and what several passes read comes from global
// memory once.
//   blockRows    a long row that is read in several passes: the block copies it, and all passes read the copy
//   warpColumns  each row that a warp reduces: the copies of its next row are in flight while it works on this one
// A thread copies the groups of columns that it reads itself, so its own wait is enough, without a barrier. Either all
// loads that qualify go through shared memory or none, where they would not fit.
#pragma once
#include "codegen/cuda/kernel/launch.h"

namespace tcc::cuda {

/// The dynamic and static shared memory that a block may have on each GPU since sm_80.
inline constexpr int64_t mostBlockShared = 99 << 10;

struct StagedLoad {
  unsigned node = 0;  // a load of whole groups of columns
  int64_t offset = 0; // where its row starts in the copy of a row, in bytes
};

struct StagedLoads {
  std::vector<StagedLoad> loads; // ascending by node
  int64_t rowBytes = 0;          // of all loads together
  int64_t rows = 0;              // how many rows a block holds: one, or two for each warp
  int64_t bytes() const { return rowBytes * rows; }
};

/// It depends on form and division alone; `sharedBytes` of the division is not read.
StagedLoads stagedLoads(const KernelInfo &form, const KernelDivision &division);

} // namespace tcc::cuda
