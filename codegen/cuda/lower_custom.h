// Lowers custom ops that have kernel text for GPUs.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

/// Appends the launch of the op's kernel, whose text becomes a module of its own. Errors: another text of the step has
/// a kernel with the same name.
runtime::Error lowerCustomLaunch(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels);

} // namespace tcc::cuda
