// selfTest: checks that a GPU computes rightly, by a kernel, a matmul and a captured graph whose results are known
// exactly.
#pragma once
#include "runtime/device/device.h"

namespace tcc::cuda {

/// Compiles a kernel for `device` by NVRTC, and runs four small steps of it and a matmul; the first two are launched
/// call by call, the others as a captured graph. Every value is a small integer, so the device must give the host's
/// bits. Errors: something cannot be opened, compiled or run, with what to do about it; the first wrong value.
runtime::Error selfTest(const std::shared_ptr<runtime::Device> &device);

} // namespace tcc::cuda
