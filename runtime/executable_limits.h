// limitsOf: the limits of the device that an executable runs on.
#pragma once
#include "runtime/executable.h"
#include "runtime/machine_limits.h"

namespace tcc::runtime {

/// For the CPU, the remembered limits of as many threads as the executable has. For another device they are measured,
/// with matmuls of the type that the plan's first matmul multiplies.
MachineLimits limitsOf(const Executable &executable);

} // namespace tcc::runtime
