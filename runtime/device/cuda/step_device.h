// A GPU as a device of the runtime (runtime/device/device.h), which runs the plans of artefacts with cubins. Below it
// functions throw CudaError; this interface gives Error.
#pragma once

#include "runtime/device/device.h"

namespace tcc::runtime::cuda {

struct StepDeviceOptions {
  int ordinal = 0;
  /// The file in which the algorithms of matmuls are remembered. With a file they are timed and the fastest is taken;
  /// without one the first that repeats its bits is taken.
  std::string tuningFile = {};
  /// Whether each program's second step is captured and launched as a graph from then on. If not, every step is
  /// launched call by call.
  bool capture = true;
  /// A step with more launches and copies than this is never captured: its graph would take about a kilobyte of the
  /// host's memory for each. Those in loops count once for each turn.
  std::size_t mostCaptured = std::size_t{1} << 17;
};

/// Opens the driver and a device. Errors say what to do about it: no driver, no such device, one that is too old.
///
/// After an error that leaves the device's context unusable (an illegal address, a failed launch, a memory error) the
/// device is closed: every later call fails with that reason, and its memory is lost. The rest of the process goes on.
Expected<std::shared_ptr<runtime::Device>> openStepDevice(const StepDeviceOptions &options = {});

} // namespace tcc::runtime::cuda
