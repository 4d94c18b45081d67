// What NVIDIA states of the largest GPU of each architecture, for reports about code that has not run.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

/// `architecture`: "sm_90a", "compute_90". Nothing is stated of those that are not in the table.
StatedLimits statedLimitsOf(llvm::StringRef architecture);

} // namespace tcc::cuda
