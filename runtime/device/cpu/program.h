// One step on the host's CPU: kernels of a shared object over the thread pool, products, copies.
#pragma once
#include "runtime/arena.h"
#include "runtime/device/device.h"

namespace tcc::runtime {

/// Loads the machine code and builds the products of a plan. `arena` is the device's, for what checked mode and memory
/// reports ask of it. Errors: code that cannot be loaded, a missing symbol, a product that cannot be built, an
/// instruction of another device, no memory.
Expected<std::unique_ptr<Program>> loadCpuProgram(const Plan &plan, std::span<const std::string> code,
                                                  const ProgramOptions &options, std::shared_ptr<Arena> arena);

} // namespace tcc::runtime
