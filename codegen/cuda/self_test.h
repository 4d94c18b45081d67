// Whether a GPU does what it is told: a kernel, a product and a captured graph, with results that are known exactly.
#pragma once
#include "runtime/device/device.h"

namespace tcc::cuda {

/// Compiles a kernel for `device` by NVRTC and runs four small steps of it and a matrix product: the first two as they
/// are, the others as a captured graph. Every value is a small integer, so bits must be those of the host. Errors: what
/// cannot be opened, compiled or run, with what to do about it; the first wrong value.
runtime::Error selfTest(const std::shared_ptr<runtime::Device> &device);

} // namespace tcc::cuda
