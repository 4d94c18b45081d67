// The device of target "forms".
#pragma once
#include "runtime/device/device.h"

namespace tcc::forms {

/// Memory of its own, which the host may not follow; steps run when they are started, kernels by interpretation.
std::shared_ptr<runtime::Device> makeDevice();

} // namespace tcc::forms
