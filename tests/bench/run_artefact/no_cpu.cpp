// No CPU as a device: its matmuls would come with it.
#include "runtime/device/device.h"

namespace tcc::runtime {

std::shared_ptr<Device> makeCpuDevice() {
  return nullptr; // a device is always given here
}

} // namespace tcc::runtime
