#include "runtime/device/mirrored_tensor.h"
#include <cstring>

namespace tcc::runtime {

MirroredTensor::MirroredTensor(TensorStorage host) : size(host.bytes()), host(std::move(host)) {}

MirroredTensor::MirroredTensor(std::shared_ptr<StepOutputs> outputs, size_t index, int64_t bytes)
    : size(bytes), hostIsValid(false), pending(std::move(outputs)), pendingIndex(index) {}

// The newest bytes to the host.
Error MirroredTensor::fetch() {
  if (hostIsValid)
    return Error::success();
  if (host.bytes() != size) {
    auto memory = TensorStorage::allocate(size);
    if (!memory)
      return memory.error();
    host = std::move(*memory);
  }
  if (pending) {
    if (Error error = pending->read(pendingIndex, host.data(), size))
      return error;
    pending.reset();
  } else {
    std::lock_guard lock(device->mutex());
    if (Error error = device->copyOut(host.data(), remote.address, size))
      return error;
  }
  hostIsValid = true;
  return Error::success();
}

Expected<const void *> MirroredTensor::read() {
  if (Error error = fetch())
    return error;
  return host.data();
}

Expected<void *> MirroredTensor::write() {
  if (Error error = fetch())
    return error;
  if (deviceIsValid) // else nothing changes, so that steps of several threads may read one state on the host
    deviceIsValid = false;
  return host.data();
}

Expected<char *> MirroredTensor::onDevice(const std::shared_ptr<Device> &wanted) {
  if (device != wanted || !remote.owner) {
    if (Error error = fetch())
      return error;
    deviceIsValid = false;
    remote = {};
    std::lock_guard lock(wanted->mutex());
    auto memory = wanted->allocate(size);
    if (!memory)
      return memory.error();
    remote = std::move(*memory);
    device = wanted;
  }
  if (!deviceIsValid) {
    if (Error error = fetch())
      return error;
    std::lock_guard lock(device->mutex());
    if (Error error = device->copyIn(remote.address, host.data(), size))
      return error;
    deviceIsValid = true;
  }
  return remote.address;
}

void MirroredTensor::deviceWrote(bool poison) {
  hostIsValid = false;
  if (poison && host.bytes() > 0)
    std::memset(host.data(), 0xFF, static_cast<size_t>(host.bytes()));
}

void MirroredTensor::fallBack() {
  if (host.bytes() != size)
    return; // an output that never arrived has no older copy
  hostIsValid = true;
  deviceIsValid = false;
  remote = {};
  device = {};
}

} // namespace tcc::runtime
