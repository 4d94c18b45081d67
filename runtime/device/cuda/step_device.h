// A GPU as a device of the runtime (runtime/device/device.h): runs the plans of artefacts with cubins. What throws
// CudaError stops here; the interface gives Error.
#pragma once

#include "runtime/device/device.h"

namespace tcc::runtime::cuda {

struct StepDeviceOptions {
  int ordinal = 0;
  /// Where the algorithms of matmuls are remembered; with a file they are timed, without one the first
  /// repeatable one is taken.
  std::string tuningFile = {};
  /// Capture each program's second step and launch the graph from then on; otherwise every step is launched eagerly.
  bool capture = true;
  /// A step with more launches and copies than this, those of loops counted once a turn, is launched eagerly: its graph
  /// would take about a kilobyte of the host's memory for each.
  std::size_t mostCaptured = std::size_t{1} << 17;
};

/// Opens the driver and a device. Errors: no driver, no such device, one that is too old; with what to do about it.
///
/// After an error that leaves the device's context unusable (an illegal address, a failed launch, a memory error) the
/// device is closed: every later call says so and why, its memory is lost, the rest of the process goes on.
Expected<std::shared_ptr<runtime::Device>> openStepDevice(const StepDeviceOptions &options = {});

} // namespace tcc::runtime::cuda
