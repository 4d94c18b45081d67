// A tensor that lives on the host and, while steps of a device use it, there too. It knows which copy has the newest
// bytes, so that nothing is copied twice and nobody reads what is out of date.
#pragma once
#include "runtime/device/device.h"

namespace tcc::runtime {

/// Move only. Used from one thread at a time.
class MirroredTensor {
public:
  /// A tensor whose newest bytes are on the host.
  explicit MirroredTensor(TensorStorage host);
  /// Output `index` of a step. It is on its way to the host, where memory is allocated for it when it is read.
  MirroredTensor(std::shared_ptr<StepOutputs> outputs, size_t index, int64_t bytes);

  int64_t bytes() const { return size; }

  /// The bytes on the host, fetched from where they are newest. Good until the next step that writes the tensor.
  /// Errors, here and below: a device that has closed, no memory.
  Expected<const void *> read();
  /// The same bytes, to be written. A device's copy is out of date from now on. What is written after the next step has
  /// started is lost.
  Expected<void *> write();
  /// The newest bytes on a device with memory of its own. They are sent there if they are not there yet, and a copy on
  /// another device is given up.
  Expected<char *> onDevice(const std::shared_ptr<Device> &device);
  /// To be called when a step that was given onDevice() has updated the tensor. `poison` fills the host's copy with
  /// 0xFF bytes (NaN), so that it shows if somebody still reads a span of it.
  void deviceWrote(bool poison);

  /// To be called after a device was lost: the host's older copy is the value from now on.
  void fallBack();

private:
  Error fetch();

  int64_t size = 0;
  TensorStorage host; ///< nothing before the first read of an output
  DeviceMemory remote;
  std::shared_ptr<Device> device; ///< whose memory `remote` is
  bool hostIsValid = true, deviceIsValid = false;
  std::shared_ptr<StepOutputs> pending; ///< where the bytes come from while neither is valid
  size_t pendingIndex = 0;
};

} // namespace tcc::runtime
