// Measures what a device can do at most; a profile gives shares of these limits.
#pragma once
#include "runtime/device/device.h"
#include "runtime/dtype.h"
#include "runtime/machine_limits.h"

namespace tcc::runtime {

// By the device's own clock, for a device with memory of its own: the best of a few, larger and larger ones until one
// takes milliseconds; 0 where it fails.

/// Bytes read and written a second by copies of up to 256 MiB.
double measureCopyRate(const std::shared_ptr<Device> &device);
/// Operations a second of square products of `dtype`, of up to 4096 rows.
double measureProductRate(const std::shared_ptr<Device> &device, DType dtype);
/// Both, of f32 products and of those of `dtype`; `threads` is 0.
inline MachineLimits measureLimits(const std::shared_ptr<Device> &device, DType dtype) {
  return {0, measureProductRate(device, DType::f32), dtype == DType::f32 ? 0 : measureProductRate(device, dtype),
          measureCopyRate(device)};
}

} // namespace tcc::runtime
