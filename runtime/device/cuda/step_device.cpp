#include "runtime/device/cuda/step_device.h"
#include "runtime/device/cuda/session.h"

#include <algorithm>

namespace tcc::runtime::cuda {

bool isSticky(int code) {
  constexpr int sticky[] = {
      214, // uncorrectable memory error
      700, // illegal address
      702, // launch timed out
      709, // context destroyed
      710, // assertion
      714, // hardware stack
      715, // illegal instruction
      716, // misaligned address
      717, // invalid address space
      718, // invalid program counter
      719, // launch failed
      999, // unknown
  };
  return std::find(std::begin(sticky), std::end(sticky), code) != std::end(sticky);
}

Error Session::closed() const {
  std::lock_guard guard(lock);
  return closedBecause.empty() ? Error::success() : Error(name + " is closed after: " + closedBecause);
}

void Session::close(const std::string &reason) {
  std::lock_guard guard(lock);
  if (closedBecause.empty())
    closedBecause = reason;
}

namespace {

/// Whether machine code for one architecture runs on a device, or PTX is compiled for it.
Error fits(std::string_view architecture, int capability, const std::string &own) {
  const bool ptx = architecture.starts_with("compute_");
  if (!ptx && !architecture.starts_with("sm_"))
    return Error("`" + std::string(architecture) + "` is no architecture; sm_NN or compute_NN is");
  std::string_view digits = architecture.substr(ptx ? 8 : 3);
  const bool specific = digits.ends_with('a');
  if (specific)
    digits.remove_suffix(1);
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return Error("`" + std::string(architecture) + "` is no architecture; sm_NN or compute_NN is");
  const int number = std::stoi(std::string(digits));
  const bool runs = specific ? number == capability
                    : ptx    ? number <= capability
                             : number <= capability && number / 10 == capability / 10;
  return runs ? Error::success() : Error("the device needs code for " + own + ", or PTX for it or older");
}

class StepDevice final : public runtime::Device {
public:
  explicit StepDevice(std::shared_ptr<Session> session) : session(std::move(session)) {}
  ~StepDevice() override {
    (void)session->attempt([&] { session->wait(); });
  }

  std::string_view kind() const override { return "cuda"; }
  const std::string &name() const override { return session->name; }
  bool sharesHostMemory() const override { return false; }
  bool isClosed() const override { return bool(session->closed()); }
  std::int64_t memoryBytes() const override { return std::int64_t(session->device->totalMemory()); }
  std::int64_t allocatedBytes() const override { return session->allocated; }

  std::string codeTarget() const override { return "cuda:" + session->device->architecture(); }

  Error accepts(const TargetCode &code) const override {
    constexpr std::string_view kind = "cuda:";
    if (!code.target.starts_with(kind))
      return Error("it is for another kind of device");
    return fits(std::string_view(code.target).substr(kind.size()), session->device->computeCapability(),
                session->device->architecture());
  }

  Expected<DeviceMemory> allocate(std::int64_t bytes) override {
    DeviceMemory memory;
    Error error = session->attempt([&] {
      struct Held {
        std::shared_ptr<Session> session;
        Buffer buffer;
        explicit Held(std::shared_ptr<Session> session) : session(std::move(session)) {}
        ~Held() {
          session->allocated -= static_cast<std::int64_t>(buffer.size());
          (void)session->attempt([&] { session->wait(); }); // steps that use it
        }
      };
      auto held = std::make_shared<Held>(session);
      held->buffer = session->device->allocate(static_cast<std::size_t>(bytes));
      session->allocated += bytes;
      memory = {reinterpret_cast<char *>(held->buffer.address()), bytes, held};
    });
    if (error)
      return error;
    return memory;
  }

  Error copyIn(char *to, const void *from, std::int64_t bytes) override {
    return session->attempt([&] {
      session->stream.copyToDevice(reinterpret_cast<DevicePointer>(to), from, static_cast<std::size_t>(bytes));
      session->wait();
    });
  }

  Error copyOut(void *to, const char *from, std::int64_t bytes) override {
    return session->attempt([&] {
      session->stream.copyToHost(to, reinterpret_cast<DevicePointer>(from), static_cast<std::size_t>(bytes));
      session->wait();
    });
  }

  Error waitFor(void *stream) override {
    return session->attempt([&] { session->order(streamOf(stream), session->stream); });
  }

  Error holdBack(void *stream) override {
    return session->attempt([&] { session->order(session->stream, streamOf(stream)); });
  }

  Expected<char *> arena(std::int64_t bytes, std::int64_t alignment) override {
    if (alignment > 256)
      return Error("an arena aligned to " + std::to_string(alignment) + " bytes was asked for; a GPU's has 256");
    Error error = session->attempt([&] {
      const auto old = static_cast<std::int64_t>(session->arena.size());
      if (old >= bytes)
        return;
      session->wait();
      session->allocated -= old;
      session->arena = Buffer(); // first: both at once may be too much
      session->arena = session->device->allocate(static_cast<std::size_t>(bytes));
      session->allocated += bytes;
    });
    if (error)
      return error;
    return reinterpret_cast<char *>(session->arena.address());
  }

  Expected<std::unique_ptr<Program>> load(const Plan &plan, std::span<const std::string> code,
                                          const ProgramOptions &options) override {
    return loadProgram(session, plan, code, options);
  }

private:
  Stream streamOf(void *stream) const { return session->device->streamOf(static_cast<StreamHandle>(stream)); }

  std::shared_ptr<Session> session;
};

} // namespace

Expected<std::shared_ptr<runtime::Device>> openStepDevice(const StepDeviceOptions &options) {
  auto session = std::make_shared<Session>();
  session->options = options;
  try {
    session->device = Device::open(options.ordinal);
    session->name = "cuda:" + std::to_string(options.ordinal) + " (" + session->device->name() + ")";
    session->stream = session->device->makeStream();
  } catch (const CudaError &error) {
    return Error(error.what());
  }
  return std::shared_ptr<runtime::Device>(std::make_shared<StepDevice>(std::move(session)));
}

} // namespace tcc::runtime::cuda
