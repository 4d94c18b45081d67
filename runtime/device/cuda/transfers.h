// How inputs and outputs are copied while steps run: inputs go through two pinned buffers, outputs through a ring of
// them.
#pragma once

#include "runtime/device/cuda/session.h"

#include <array>

namespace tcc::runtime::cuda {

/// Tensors one after another in pinned memory, each at a multiple of 256 bytes.
struct PinnedLayout {
  explicit PinnedLayout(const std::vector<TensorSpec> &specs);
  std::vector<std::size_t> offsets, sizes;
  std::size_t bytes = 0;
};

/// Two buffers that take turns: while the copies out of one are on their way, the other is filled.
class InputStaging {
public:
  InputStaging(std::shared_ptr<Session> session, const std::vector<TensorSpec> &specs);
  /// Copies host tensors, then starts their copies to `places`. Waits only for the copies of two steps ago.
  void send(std::span<const ConstTensorRef> inputs, std::span<const DevicePointer> places);
  std::size_t bytes() const { return layout.bytes * buffers.size(); }

private:
  struct Buffer {
    PinnedBuffer memory;
    Event sent;
    bool used = false;
  };
  std::shared_ptr<Session> session;
  PinnedLayout layout;
  std::array<Buffer, 2> buffers;
  std::size_t next = 0;
};

/// Pinned memory for the outputs of the last four steps, or of the last two if outputs are large. Outputs that a reader
/// still holds when their memory is needed again are moved to the heap, once their step is done.
class OutputRing {
public:
  OutputRing(std::shared_ptr<Session> session, const std::vector<TensorSpec> &specs);
  /// Starts the copies of the outputs at `places`. They run after all that was started before.
  std::shared_ptr<StepOutputs> receive(std::span<const DevicePointer> places);
  std::size_t bytes() const { return layout.bytes * slots.size(); }

private:
  struct Slot;
  class Outputs;
  std::shared_ptr<Session> session;
  PinnedLayout layout;
  std::vector<std::shared_ptr<Slot>> slots;
  std::size_t next = 0;
};

} // namespace tcc::runtime::cuda
