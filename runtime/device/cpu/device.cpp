// The host's CPU as a device: its memory is the host's, copies are memcpy, the arena is one mapping.
#include "runtime/arena.h"
#include "runtime/cpu.h"
#include "runtime/device/cpu/program.h"
#include <cstring>
#include <unistd.h>

namespace tcc::runtime {
namespace {

class CpuDevice final : public Device {
public:
  std::string_view kind() const override { return "cpu"; }
  const std::string &name() const override {
    static const std::string text = "cpu";
    return text;
  }
  bool sharesHostMemory() const override { return true; }
  int64_t memoryBytes() const override { return int64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }
  int64_t allocatedBytes() const override { return *allocated + step->bytes(); }

  Error accepts(const TargetCode &code) const override {
    if (code.target != "cpu" && !code.target.starts_with("cpu:"))
      return Error("it is for another kind of device");
    return requireCpuFeatures(code.needs);
  }

  Expected<DeviceMemory> allocate(int64_t bytes) override {
    auto storage = TensorStorage::allocate(bytes);
    if (!storage)
      return storage.error();
    *allocated += bytes;
    auto holder = std::make_shared<TensorStorage>(std::move(*storage));
    char *address = static_cast<char *>(holder->data());
    return DeviceMemory{address, bytes, std::shared_ptr<void>(address, [holder, count = allocated](void *) {
                          *count -= holder->bytes();
                        })};
  }

  Expected<DeviceMemory> allocateGuarded(int64_t bytes) override {
    auto mapping = Arena::create(bytes);
    if (!mapping)
      return mapping.error();
    auto holder = std::make_shared<Arena>(std::move(*mapping));
    return DeviceMemory{holder->data(), bytes, holder};
  }

  Error copyIn(char *to, const void *from, int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(to, from, static_cast<size_t>(bytes));
    return Error::success();
  }
  Error copyOut(void *to, const char *from, int64_t bytes) override {
    return copyIn(static_cast<char *>(to), from, bytes);
  }

  Expected<char *> arena(int64_t bytes, int64_t alignment) override {
    if (step->bytes() < bytes || step->alignment() < alignment) {
      auto grown = Arena::create(std::max(bytes, step->bytes()), std::max(alignment, step->alignment()));
      if (!grown)
        return grown.error();
      *step = std::move(*grown);
      takeTurn(); // what a step had left is gone
    }
    return step->window(bytes);
  }

  Expected<std::unique_ptr<Program>> load(const Plan &plan, std::span<const std::string> code,
                                          const ProgramOptions &options) override {
    return loadCpuProgram(plan, code, options, step);
  }

private:
  std::shared_ptr<Arena> step = std::make_shared<Arena>();
  std::shared_ptr<int64_t> allocated = std::make_shared<int64_t>(0);
};

} // namespace

std::shared_ptr<Device> makeCpuDevice() {
  return std::make_shared<CpuDevice>();
}

} // namespace tcc::runtime
