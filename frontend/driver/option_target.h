// Which target the options mean: --target=, -march= and what is asked to be shown of kernels say so together.
#pragma once
#include "frontend/driver/options.h"

namespace tcc::driver {

/// Fills in `compile.targetName` and `architectures`. -march= names machines of the target's kind. Throws Error.
void settleTarget(Options &options);

/// -S: the assembly of the target's kind, into a file. Throws Error.
void settleAssembly(Options &options);

} // namespace tcc::driver
