// One CUDA device and what lives on it: memory, streams, events, modules, launches. Each handle is released by its
// owner's destructor; every failure is a CudaError whose text says what was being done. A Device must outlive what was
// made from it.
#pragma once

#include "runtime/device/cuda/driver.h"

#include <array>
#include <memory>
#include <span>
#include <utility>

namespace tcc::runtime::cuda {

/// A move-only handle with its release function; the release's result is ignored, since destructors cannot report.
template <typename Handle>
class Owned {
public:
  using Release = Result (*)(Handle);
  Owned() = default;
  Owned(Handle handle, Release release) : handle(handle), release(release) {}
  Owned(Owned &&other) noexcept
      : handle(std::exchange(other.handle, Handle{})), release(std::exchange(other.release, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle, other.handle);
    std::swap(release, other.release);
    return *this;
  }
  ~Owned() {
    if (release)
      release(handle);
  }
  Handle get() const { return handle; }

private:
  Handle handle{};
  Release release = nullptr;
};

/// Bytes of device memory. Zero bytes are allowed and have a null address.
class Buffer {
public:
  Buffer() = default;
  DevicePointer address() const { return memory.get(); }
  std::size_t size() const { return bytes; }

private:
  friend class Device;
  Owned<DevicePointer> memory;
  std::size_t bytes = 0;
};

/// Page-locked host memory, needed for copies that run beside kernels, and visible to kernels.
class PinnedBuffer {
public:
  PinnedBuffer() = default;
  void *data() const { return memory.get(); }
  /// Where kernels see it; 0 of an empty buffer.
  DevicePointer deviceAddress() const { return address; }
  std::size_t size() const { return bytes; }
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T *>(data()), bytes / sizeof(T)};
  }

private:
  friend class Device;
  Owned<void *> memory;
  DevicePointer address = 0;
  std::size_t bytes = 0;
};

class Event {
public:
  void synchronize() const;
  /// Milliseconds from `start` to this event; both recorded with timing and reached.
  float millisecondsSince(const Event &start) const;

private:
  friend class Device;
  friend class Stream;
  const Driver *driver = nullptr;
  Owned<EventHandle> event;
};

/// Work that was captured from a stream, ready to be launched again and again. Addresses and arguments are those of the
/// capture.
class Graph {
public:
  explicit operator bool() const { return graph.get() != nullptr; }

private:
  friend class Stream;
  Owned<GraphExecHandle> graph;
};

class Stream {
public:
  StreamHandle handle() const { return stream.get(); }
  void synchronize() const;
  void record(const Event &event) const;
  void waitFor(const Event &event) const;
  /// Asynchronous copies: host memory must stay until synchronize(); pageable memory makes them synchronous.
  void copyToDevice(DevicePointer to, const void *from, std::size_t bytes) const;
  void copyToHost(void *to, DevicePointer from, std::size_t bytes) const;
  void copyOnDevice(DevicePointer to, DevicePointer from, std::size_t bytes) const;
  void setBytes(DevicePointer to, unsigned char value, std::size_t bytes) const;
  /// From here to endCapture() work is recorded and not run; waiting, allocating and loading are errors until then.
  void beginCapture() const;
  /// The recorded work as a graph. Throws CudaError when something within the capture was not allowed; the stream is
  /// usable again either way.
  Graph endCapture() const;
  void launch(const Graph &graph) const;

private:
  friend class Device;
  const Driver *driver = nullptr;
  Owned<StreamHandle> stream;
};

struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  /// Dynamic shared memory; at most what Module::kernel was asked for.
  unsigned sharedBytes = 0;
  /// Blocks per cluster; {1, 1, 1} launches without the attribute.
  std::array<unsigned, 3> cluster = {1, 1, 1};
  /// Lets the kernel start before its predecessor ends; it must wait by griddepcontrol before reading its results.
  bool overlapsPredecessor = false;
};

/// A kernel of a loaded module; valid while the module lives.
class Kernel {
public:
  /// `arguments` point to the parameters in order, each of the kernel's own type. A launch with an empty grid is none.
  void launch(const Stream &stream, const LaunchShape &shape, std::span<void *const> arguments) const;
  int registers() const;
  int localBytes() const;
  const std::string &name() const { return kernelName; }

private:
  friend class Module;
  const Driver *driver = nullptr;
  FunctionHandle function = nullptr;
  std::string kernelName;
};

class Module {
public:
  /// The kernel called `name`, allowed `dynamicSharedBytes` of dynamic shared memory.
  Kernel kernel(const std::string &name, unsigned dynamicSharedBytes = 0) const;
  /// The address of the `__device__` variable called `name`, which must have `bytes` bytes.
  DevicePointer global(const std::string &name, std::size_t bytes) const;

private:
  friend class Device;
  const Driver *driver = nullptr;
  Owned<ModuleHandle> module;
};

/// A device with its primary context retained and current on the thread that opened it.
class Device {
public:
  /// Opens the driver and device `ordinal`; throws CudaError when either is missing or too old.
  static std::unique_ptr<Device> open(int ordinal = 0);
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  ~Device();

  /// Needed once on every other thread that uses the device.
  void makeCurrent() const;
  const std::string &name() const { return deviceName; }
  /// 10·major + minor: 80, 90, 100.
  int computeCapability() const { return capability; }
  /// The architecture to compile for: sm_80 for every 8.x, sm_90a, sm_100a, and the plain number of any other.
  std::string architecture() const;
  std::size_t totalMemory() const;
  std::size_t freeMemory() const;
  int attribute(DeviceAttribute which) const;

  Buffer allocate(std::size_t bytes) const;
  PinnedBuffer allocatePinned(std::size_t bytes) const;
  Stream makeStream() const;
  Event makeEvent(bool timing = true) const;
  /// Loads a cubin; throws CudaError with the driver's log.
  Module load(std::span<const char> cubin) const;
  const Driver &driver() const { return functions; }

private:
  Device() = default;
  std::string newerCode(Result result) const;
  Driver functions;
  DeviceOrdinal ordinal = 0;
  ContextHandle context = nullptr;
  int capability = 0;
  std::string deviceName;
  bool retained = false;
};

} // namespace tcc::runtime::cuda
