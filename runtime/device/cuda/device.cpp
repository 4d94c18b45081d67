// Thin owners over the driver's handles: each call is checked, each failure says what was being done.
#include "runtime/device/cuda/device.h"

#include <string>

namespace tcc::runtime::cuda {

namespace {

std::string amount(std::size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

std::string triple(const std::array<unsigned, 3> &value) {
  return std::to_string(value[0]) + "x" + std::to_string(value[1]) + "x" + std::to_string(value[2]);
}

} // namespace

void Event::synchronize() const {
  driver->check(driver->eventSynchronize(event.get()), "waiting for an event");
}

bool Event::isReached() const {
  constexpr Result notReady = 600;
  const Result result = driver->eventQuery(event.get());
  if (result != notReady)
    driver->check(result, "asking for an event");
  return result != notReady;
}

float Event::millisecondsSince(const Event &start) const {
  float milliseconds = 0;
  driver->check(driver->eventElapsed(&milliseconds, start.event.get(), event.get()), "reading the time between events");
  return milliseconds;
}

void Stream::synchronize() const {
  driver->check(driver->streamSynchronize(handle()), "waiting for a stream (an earlier kernel may have failed)");
}

void Stream::record(const Event &event) const {
  driver->check(driver->eventRecord(event.event.get(), handle()), "recording an event");
}

void Stream::waitFor(const Event &event) const {
  driver->check(driver->streamWaitEvent(handle(), event.event.get(), 0), "making a stream wait for an event");
}

void Stream::copyToDevice(DevicePointer to, const void *from, std::size_t bytes) const {
  if (bytes)
    driver->check(driver->copyToDevice(to, from, bytes, handle()), "copying " + amount(bytes) + " to the device");
}

void Stream::copyToHost(void *to, DevicePointer from, std::size_t bytes) const {
  if (bytes)
    driver->check(driver->copyToHost(to, from, bytes, handle()), "copying " + amount(bytes) + " from the device");
}

void Stream::copyOnDevice(DevicePointer to, DevicePointer from, std::size_t bytes) const {
  if (bytes)
    driver->check(driver->copyOnDevice(to, from, bytes, handle()), "copying " + amount(bytes) + " on the device");
}

void Stream::setBytes(DevicePointer to, unsigned char value, std::size_t bytes) const {
  if (bytes)
    driver->check(driver->setBytes(to, value, bytes, handle()), "filling " + amount(bytes) + " on the device");
}

void Stream::beginCapture() const {
  driver->check(driver->streamBeginCapture(handle(), captureThreadLocal), "beginning to capture a step");
}

Graph Stream::endCapture() const {
  GraphHandle captured = nullptr;
  driver->check(driver->streamEndCapture(handle(), &captured), "ending the capture of a step");
  const Owned<GraphHandle> owner(captured, driver->graphDestroy);
  GraphExecHandle ready = nullptr;
  driver->check(driver->graphInstantiate(&ready, captured, 0), "making a graph of a captured step");
  Graph graph;
  graph.graph = Owned<GraphExecHandle>(ready, driver->graphExecDestroy);
  return graph;
}

void Stream::launch(const Graph &graph) const {
  driver->check(driver->graphLaunch(graph.graph.get(), handle()), "launching a captured step");
}

void Kernel::launch(const Stream &stream, const LaunchShape &shape, std::span<void *const> arguments) const {
  if (shape.grid[0] == 0 || shape.grid[1] == 0 || shape.grid[2] == 0)
    return;
  LaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.cluster != std::array<unsigned, 3>{1, 1, 1}) {
    LaunchAttribute &attribute = attributes[count++];
    attribute.id = launchCluster;
    for (int axis = 0; axis < 3; ++axis)
      attribute.value.cluster[axis] = shape.cluster[axis];
  }
  if (shape.overlapsPredecessor) {
    LaunchAttribute &attribute = attributes[count++];
    attribute.id = launchProgrammaticSerialization;
    attribute.value.flag = 1;
  }
  LaunchConfig config = {};
  for (int axis = 0; axis < 3; ++axis) {
    config.grid[axis] = shape.grid[axis];
    config.block[axis] = shape.block[axis];
  }
  config.sharedBytes = shape.sharedBytes;
  config.stream = stream.handle();
  config.attributes = count ? attributes : nullptr;
  config.attributeCount = count;
  Result result = driver->launch(&config, function, const_cast<void **>(arguments.data()), nullptr);
  if (result != 0)
    driver->check(result, "launching " + kernelName + " (grid " + triple(shape.grid) + ", block " +
                              triple(shape.block) + ", cluster " + triple(shape.cluster) + ", " +
                              amount(shape.sharedBytes) + " of shared memory)");
}

int Kernel::registers() const {
  int value = 0;
  driver->check(driver->functionGetAttribute(&value, functionRegisters, function),
                "reading registers of " + kernelName);
  return value;
}

int Kernel::localBytes() const {
  int value = 0;
  driver->check(driver->functionGetAttribute(&value, functionLocalBytes, function),
                "reading local memory of " + kernelName);
  return value;
}

Kernel Module::kernel(const std::string &name, unsigned dynamicSharedBytes) const {
  Kernel kernel;
  kernel.driver = driver;
  kernel.kernelName = name;
  driver->check(driver->moduleGetFunction(&kernel.function, module.get(), name.c_str()), "looking up kernel " + name);
  // Up to 48 KiB, static arrays included, need no permission.
  int staticBytes = 0;
  if (dynamicSharedBytes)
    driver->check(driver->functionGetAttribute(&staticBytes, functionStaticShared, kernel.function),
                  "reading shared memory of " + name);
  if (dynamicSharedBytes && dynamicSharedBytes + unsigned(staticBytes) > 48 * 1024)
    driver->check(driver->functionSetAttribute(kernel.function, functionMaxDynamicShared, int(dynamicSharedBytes)),
                  "allowing " + name + " " + amount(dynamicSharedBytes) + " of shared memory");
  return kernel;
}

DevicePointer Module::global(const std::string &name, std::size_t bytes) const {
  DevicePointer address = 0;
  std::size_t found = 0;
  driver->check(driver->moduleGetGlobal(&address, &found, module.get(), name.c_str()), "looking up variable " + name);
  if (found != bytes)
    throw CudaError("variable " + name + " has " + amount(found) + ": " + amount(bytes) + " are expected");
  return address;
}

std::unique_ptr<Device> Device::open(int ordinal) {
  std::unique_ptr<Device> device(new Device);
  device->functions = Driver::open();
  const Driver &driver = device->functions;
  constexpr int oldestDriver = 12000;
  const int version = driver.version();
  if (version < oldestDriver)
    throw CudaError("the CUDA driver is for CUDA " + versionText(version) +
                    ": one for 12.0 or later is needed, NVIDIA's 525 or newer");
  int count = 0;
  driver.check(driver.deviceGetCount(&count), "counting CUDA devices");
  if (ordinal < 0 || ordinal >= count)
    throw CudaError("CUDA device " + std::to_string(ordinal) + " asked for, but the driver shows " +
                    std::to_string(count) + ": check `nvidia-smi` and CUDA_VISIBLE_DEVICES");
  driver.check(driver.deviceGet(&device->ordinal, ordinal), "opening CUDA device " + std::to_string(ordinal));
  char name[256] = {};
  driver.check(driver.deviceGetName(name, sizeof name - 1, device->ordinal), "reading the device's name");
  device->deviceName = name;
  device->capability = 10 * device->attribute(attributeMajor) + device->attribute(attributeMinor);
  if (device->capability < 80)
    throw CudaError(device->deviceName + " has compute capability " + std::to_string(device->capability / 10) + "." +
                    std::to_string(device->capability % 10) + ": 8.0 or later is needed");
  driver.check(driver.contextRetain(&device->context, device->ordinal), "making a context on " + device->deviceName);
  device->retained = true;
  device->makeCurrent();
  return device;
}

Device::~Device() {
  if (retained)
    functions.contextRelease(ordinal);
}

void Device::makeCurrent() const {
  functions.check(functions.contextSetCurrent(context), "making the context current");
}

std::string Device::architecture() const {
  // Machine code runs on later minor versions of its major one; the `a` variants run on their own number alone.
  if (capability / 10 == 8)
    return "sm_80";
  bool specific = capability == 90 || capability == 100;
  return "sm_" + std::to_string(capability) + (specific ? "a" : "");
}

std::size_t Device::totalMemory() const {
  std::size_t bytes = 0;
  functions.check(functions.deviceTotalMem(&bytes, ordinal), "reading the size of device memory");
  return bytes;
}

std::size_t Device::freeMemory() const {
  std::size_t available = 0, total = 0;
  functions.check(functions.memGetInfo(&available, &total), "reading the amount of free device memory");
  return available;
}

int Device::attribute(DeviceAttribute which) const {
  int value = 0;
  functions.check(functions.deviceGetAttribute(&value, which, ordinal), "reading a device attribute");
  return value;
}

Buffer Device::allocate(std::size_t bytes) const {
  Buffer buffer;
  if (bytes == 0)
    return buffer;
  DevicePointer address = 0;
  functions.check(functions.memAlloc(&address, bytes), "allocating " + amount(bytes) + " on " + deviceName);
  buffer.memory = Owned<DevicePointer>(address, functions.memFree);
  buffer.bytes = bytes;
  return buffer;
}

PinnedBuffer Device::allocatePinned(std::size_t bytes) const {
  PinnedBuffer buffer;
  if (bytes == 0)
    return buffer;
  void *address = nullptr;
  constexpr unsigned mapped = 2;
  functions.check(functions.hostAlloc(&address, bytes, mapped),
                  "allocating " + amount(bytes) + " of pinned host memory");
  buffer.memory = Owned<void *>(address, functions.hostFree);
  buffer.bytes = bytes;
  functions.check(functions.hostDevicePointer(&buffer.address, address, 0),
                  "mapping " + amount(bytes) + " of pinned host memory");
  return buffer;
}

Stream Device::makeStream() const {
  constexpr unsigned nonBlocking = 1;
  StreamHandle handle = nullptr;
  functions.check(functions.streamCreate(&handle, nonBlocking), "making a stream");
  Stream stream;
  stream.driver = &functions;
  stream.stream = Owned<StreamHandle>(handle, functions.streamDestroy);
  return stream;
}

Stream Device::streamOf(StreamHandle handle) const {
  Stream stream;
  stream.driver = &functions;
  stream.stream = Owned<StreamHandle>(handle, nullptr);
  return stream;
}

Event Device::makeEvent(bool timing) const {
  constexpr unsigned disableTiming = 2;
  EventHandle handle = nullptr;
  functions.check(functions.eventCreate(&handle, timing ? 0 : disableTiming), "making an event");
  Event event;
  event.driver = &functions;
  event.event = Owned<EventHandle>(handle, functions.eventDestroy);
  return event;
}

/// What may be the cause when the driver refuses an image: code that was compiled elsewhere.
std::string Device::newerCode(Result result) const {
  constexpr int invalidImage = 200, unsupportedPtxVersion = 222;
  if (result != invalidImage && result != unsupportedPtxVersion)
    return "";
  const int version = functions.version();
  return ", whose driver is for CUDA " + versionText(version) + " and takes " +
         (result == invalidImage ? "code of CUDA " + std::to_string(version / 1000)
                                 : "PTX of CUDA " + versionText(version)) +
         " and older";
}

Module Device::load(std::span<const char> cubin) const {
  constexpr int errorLogBuffer = 5;
  constexpr int errorLogSize = 6;
  char log[4096] = {};
  int options[] = {errorLogBuffer, errorLogSize};
  void *values[] = {log, reinterpret_cast<void *>(std::uintptr_t(sizeof log - 1))};
  ModuleHandle handle = nullptr;
  Result result = functions.moduleLoad(&handle, cubin.data(), 2, options, values);
  if (result != 0)
    functions.check(result,
                    "loading a module on " + deviceName + newerCode(result) + (log[0] ? std::string(": ") + log : ""));
  Module module;
  module.driver = &functions;
  module.module = Owned<ModuleHandle>(handle, functions.moduleUnload);
  return module;
}

} // namespace tcc::runtime::cuda
