// columnValues: which values of a column each pass over a row computes, and which of them stay in registers from one
// pass to a later one. It depends on form and division alone.
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "ir/kernel_stages.h"

namespace tcc::cuda {

/// With more columns than this, a thread's loop is not unrolled as a whole, and none of its values stays in registers.
inline constexpr int64_t mostUnrolledColumns = 32;

struct ColumnValues {
  std::vector<std::vector<unsigned>> computedIn; // for each stage the column nodes that it computes, ascending
  std::vector<int> keptFrom;                     // for each node the stage that fills its registers, or -1
};

ColumnValues columnValues(const KernelInfo &form, const KernelStages &stages, const KernelDivision &division);

} // namespace tcc::cuda
