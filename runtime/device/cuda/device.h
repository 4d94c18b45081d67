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

/// A move-only handle with its release function, whose result is ignored since destructors cannot report it.
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

/// Page-locked host memory. Copies that run beside kernels need it, and kernels can read and write it.
class PinnedBuffer {
public:
  PinnedBuffer() = default;
  void *data() const { return memory.get(); }
  /// The address by which kernels use it; 0 for an empty buffer.
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
  explicit operator bool() const { return event.get() != nullptr; }
  void synchronize() const;
  /// Whether what was recorded is over. It must not have been recorded in a capture.
  bool isReached() const;
  /// Milliseconds from `start` to this event. Both events must have been made with timing, recorded and reached.
  float millisecondsSince(const Event &start) const;

private:
  friend class Device;
  friend class Stream;
  const Driver *driver = nullptr;
  Owned<EventHandle> event;
};

/// Work that was captured from a stream and can be launched again and again, always with the addresses and arguments of
/// the capture.
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
  /// Asynchronous copies. Host memory must exist until synchronize(). If it is not pinned, the copy is synchronous.
  void copyToDevice(DevicePointer to, const void *from, std::size_t bytes) const;
  void copyToHost(void *to, DevicePointer from, std::size_t bytes) const;
  void copyOnDevice(DevicePointer to, DevicePointer from, std::size_t bytes) const;
  void setBytes(DevicePointer to, unsigned char value, std::size_t bytes) const;
  /// Until endCapture() work is recorded and not run; waiting, allocating and loading are errors.
  void beginCapture() const;
  /// The recorded work as a graph. Throws CudaError if something was done that a capture does not allow. The stream is
  /// usable again in both cases.
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
  /// Dynamic shared memory of a block, at most what Module::kernel() was asked for.
  unsigned sharedBytes = 0;
  /// Blocks of a cluster; {1, 1, 1} launches without clusters.
  std::array<unsigned, 3> cluster = {1, 1, 1};
  /// Lets the kernel start before the kernel before it ends. It must wait by griddepcontrol before it reads that one's
  /// results.
  bool overlapsPredecessor = false;
};

/// A kernel of a loaded module; valid while the module lives.
class Kernel {
public:
  /// `arguments` point to the parameters in order, each of the type that the kernel declares. If the grid is empty,
  /// nothing is launched.
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
  /// The kernel called `name`. Its launches may have up to `dynamicSharedBytes` of dynamic shared memory.
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

  /// Must be called once on every other thread that uses the device.
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
  /// A stream that another library has made, and releases; null is the driver's default stream.
  Stream streamOf(StreamHandle handle) const;
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
