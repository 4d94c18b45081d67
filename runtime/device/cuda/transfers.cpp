#include "runtime/device/cuda/transfers.h"

#include <cstring>

namespace tcc::runtime::cuda {

PinnedLayout::PinnedLayout(const std::vector<TensorSpec> &specs) {
  for (const TensorSpec &spec : specs) {
    offsets.push_back(bytes);
    sizes.push_back(static_cast<std::size_t>(spec.bytes()));
    bytes += (sizes.back() + 255) / 256 * 256;
  }
}

InputStaging::InputStaging(std::shared_ptr<Session> session, const std::vector<TensorSpec> &specs)
    : session(std::move(session)), layout(specs) {
  for (Buffer &buffer : buffers) {
    buffer.memory = this->session->device->allocatePinned(layout.bytes);
    buffer.sent = this->session->device->makeEvent(false);
  }
}

void InputStaging::send(std::span<const ConstTensorRef> inputs, std::span<const DevicePointer> places) {
  Buffer &buffer = buffers[next];
  next = (next + 1) % buffers.size();
  if (buffer.used)
    buffer.sent.synchronize();
  char *const memory = static_cast<char *>(buffer.memory.data());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (layout.sizes[i] > 0)
      std::memcpy(memory + layout.offsets[i], inputs[i].data, layout.sizes[i]);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    session->stream.copyToDevice(places[i], memory + layout.offsets[i], layout.sizes[i]);
  session->stream.record(buffer.sent);
  buffer.used = true;
}

/// Lives as long as its ring or a reader; the session is released last.
struct OutputRing::Slot {
  std::shared_ptr<Session> session;
  PinnedBuffer memory;
  Event written;
  std::weak_ptr<Outputs> reader;

  ~Slot() {
    (void)session->attempt([&] { session->wait(); }); // copies into this memory may be on their way
  }
};

class OutputRing::Outputs final : public StepOutputs {
public:
  Outputs(std::shared_ptr<Slot> slot, PinnedLayout layout) : slot(std::move(slot)), layout(std::move(layout)) {}

  Error read(std::size_t index, void *to, std::int64_t bytes) override {
    if (index >= layout.sizes.size() || static_cast<std::size_t>(bytes) != layout.sizes[index])
      return Error(std::to_string(bytes) + " bytes of output " + std::to_string(index) + " are read; " +
                   (index < layout.sizes.size() ? "it has " + std::to_string(layout.sizes[index])
                                                : "there are " + std::to_string(layout.sizes.size()) + " outputs"));
    std::lock_guard guard(lock);
    if (Error error = wait())
      return error;
    const char *from = slot ? static_cast<const char *>(slot->memory.data()) : kept.data();
    if (bytes > 0)
      std::memcpy(to, from + layout.offsets[index], layout.sizes[index]);
    return Error::success();
  }

  /// Gives the pinned memory back. What could not be waited for is lost with its step, and read() says so.
  void leave() {
    std::lock_guard guard(lock);
    if (!slot)
      return;
    problem = wait();
    if (const char *from = static_cast<const char *>(slot->memory.data()); !problem && from)
      kept.assign(from, from + layout.bytes);
    slot.reset();
  }

private:
  Error wait() {
    if (problem || hasArrived)
      return problem;
    Error error = slot->session->attempt([&] { slot->written.synchronize(); });
    hasArrived = !error;
    return error;
  }

  std::mutex lock;
  std::shared_ptr<Slot> slot; ///< null once the bytes are kept
  PinnedLayout layout;
  std::vector<char> kept;
  Error problem;
  bool hasArrived = false;
};

OutputRing::OutputRing(std::shared_ptr<Session> session, const std::vector<TensorSpec> &specs)
    : session(std::move(session)), layout(specs) {
  constexpr std::size_t largeBytes = std::size_t{1} << 20;
  slots.resize(layout.bytes > largeBytes ? 2 : 4);
  for (std::shared_ptr<Slot> &slot : slots) {
    slot = std::make_shared<Slot>();
    slot->session = this->session;
    slot->memory = this->session->device->allocatePinned(layout.bytes);
    slot->written = this->session->device->makeEvent(false);
  }
}

std::shared_ptr<StepOutputs> OutputRing::receive(std::span<const DevicePointer> places) {
  const std::shared_ptr<Slot> slot = slots[next];
  next = (next + 1) % slots.size();
  if (const std::shared_ptr<Outputs> reader = slot->reader.lock())
    reader->leave();
  char *const memory = static_cast<char *>(slot->memory.data());
  for (std::size_t i = 0; i < places.size(); ++i)
    session->stream.copyToHost(memory + layout.offsets[i], places[i], layout.sizes[i]);
  session->stream.record(slot->written);
  auto outputs = std::make_shared<Outputs>(slot, layout);
  slot->reader = outputs;
  return outputs;
}

} // namespace tcc::runtime::cuda
