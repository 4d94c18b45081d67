// Measures what a device can do at most; a profile gives shares of these limits.
#pragma once
#include "runtime/device/device.h"
#include "runtime/dtype.h"
#include "runtime/machine_limits.h"

namespace tcc::runtime {

// The functions below are for a device with memory of its own, and use the device's clock. They try larger and larger
// sizes until one takes milliseconds, and give the best of a few runs; 0 if it fails.

/// Bytes read and written a second by copies of up to 256 MiB.
double measureCopyRate(const std::shared_ptr<Device> &device);
/// Operations a second of square matmuls of `dtype`, with up to 4096 rows. `tf32`: those of f32 may be rounded to TF32.
double measureProductRate(const std::shared_ptr<Device> &device, DType dtype, bool tf32 = false);
/// Both rates, for matmuls of f32 (or TF32) and of `dtype`; MachineLimits::threads is 0.
inline MachineLimits measureLimits(const std::shared_ptr<Device> &device, DType dtype, bool tf32 = false) {
  return {0, measureProductRate(device, DType::f32, tf32), dtype == DType::f32 ? 0 : measureProductRate(device, dtype),
          measureCopyRate(device)};
}

} // namespace tcc::runtime
