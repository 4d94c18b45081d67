// Finds the target that the options mean, from --target=, -march= and the kernels' form that -emit= asks for.
#pragma once
#include "frontend/driver/options.h"

namespace tcc::driver {

/// Fills in `compile.targetName` and `architectures`. -march= names machines of the target's kind. Throws Error.
void settleTarget(Options &options);

/// For -S: makes the assembly of the target's kind the emission, which is written to a file. Throws Error.
void settleAssembly(Options &options);

} // namespace tcc::driver
