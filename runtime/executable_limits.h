// The limits of whatever an executable runs on.
#pragma once
#include "runtime/executable.h"
#include "runtime/machine_limits.h"

namespace tcc::runtime {

/// Of the CPU: the remembered limits of the executable's threads; of another device: measured, with products of the
/// type that the plan's first one multiplies.
MachineLimits limitsOf(const Executable &executable);

} // namespace tcc::runtime
