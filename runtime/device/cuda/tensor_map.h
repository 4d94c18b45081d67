// A tensor map is the description of a tensor from which the GPU's bulk copies (TMA) compute addresses. A launch of a
// plan has slots for such maps.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/plan.h"

namespace tcc::runtime::cuda {

/// Writes the map of the tensor at `address` to `target`, which is aligned to 64 bytes. Throws CudaError.
void encodeMap(const Driver &driver, const MapSlot &slot, DevicePointer address, void *target);

} // namespace tcc::runtime::cuda
