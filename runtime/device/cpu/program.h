// The program of a step on the host's CPU: it runs kernels of a shared object on the thread pool, matmuls, and copies.
#pragma once
#include "runtime/arena.h"
#include "runtime/device/device.h"

namespace tcc::runtime {

/// Loads the machine code of a plan and builds its matmuls. `arena` is the device's; checked mode and memory reports
/// look at it. Errors: code that cannot be loaded, a missing symbol, a matmul that cannot be built, an instruction of
/// another device, no memory.
Expected<std::unique_ptr<Program>> loadCpuProgram(const Plan &plan, std::span<const std::string> code,
                                                  const ProgramOptions &options, std::shared_ptr<Arena> arena);

} // namespace tcc::runtime
