// What a device can do at most, measured: what a profile's shares are of.
#pragma once
#include "runtime/device/device.h"
#include "runtime/dtype.h"

namespace tcc::runtime {

struct DeviceLimits {
  double bytesPerSecond = 0; ///< of a copy, read and written together; 0: not known
  double flopsPerSecond = 0; ///< of a matrix product; 0: not known
};

// By the device's own clock, for a device with memory of its own: the best of a few, larger and larger ones until one
// takes milliseconds; 0 where it fails.

/// Bytes read and written a second by copies of up to 256 MiB.
double measureCopyRate(const std::shared_ptr<Device> &device);
/// Operations a second of square products of `dtype`, of up to 4096 rows.
double measureProductRate(const std::shared_ptr<Device> &device, DType dtype);
inline DeviceLimits measureLimits(const std::shared_ptr<Device> &device, DType dtype) {
  return {measureCopyRate(device), measureProductRate(device, dtype)};
}

} // namespace tcc::runtime
