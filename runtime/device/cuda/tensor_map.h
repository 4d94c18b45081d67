// Tensor maps: how a launch of a plan describes a tensor for bulk copies.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/plan.h"

namespace tcc::runtime::cuda {

/// Writes the map of the tensor at `address` to `target`, which is aligned to 64 bytes. Throws CudaError.
void encodeMap(const Driver &driver, const MapSlot &slot, DevicePointer address, void *target);

} // namespace tcc::runtime::cuda
