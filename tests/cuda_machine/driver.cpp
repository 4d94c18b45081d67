// Exported functions of the driver's stand-in: start, errors, devices, contexts, modules, memory, tensor maps.
#include "tests/cuda_machine/cubin.h"
#include "tests/cuda_machine/exports.h"
#include "tests/cuda_machine/stream_hook.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

using namespace tcc::machine;

// --- Start and errors ---------------------------------------------------------------------------------------------

static Settings settingsNow() {
  try {
    return currentSettings();
  } catch (const std::invalid_argument &error) {
    std::fprintf(stderr, "%s\n", error.what());
    fail(unknown, error.what());
  }
}

EXPORT int cuInit(unsigned flags) {
  return call(__func__, needsNothing, [&](State &state) {
    if (flags)
      fail(invalidValue, "flags of cuInit");
    if (state.primary.empty()) // settings change between runs of a process, not under a context
      state.settings = settingsNow();
    state.randomState = state.settings.schedule.seed;
    if (state.settings.devices < 1)
      fail(noDevice, "devices=0");
    state.initialized = true;
  });
}

EXPORT int cuDriverGetVersion(int *version) {
  return call(__func__, needsNothing,
              [&](State &state) { *version = state.primary.empty() ? settingsNow().driver : state.settings.driver; });
}

EXPORT int cuGetErrorName(int code, const char **name) {
  *name = errorName(code);
  return *name ? success : invalidValue;
}

/// The sentence, and what the stand-in knows beyond it: which kernel, line and rule.
EXPORT int cuGetErrorString(int code, const char **text) {
  thread_local std::string whole;
  *text = errorSentence(code);
  if (!*text)
    return invalidValue;
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (std::string detail = state.details[code]; !detail.empty()) {
    whole = std::string(*text) + ": " + detail;
    *text = whole.c_str();
  }
  return success;
}

// --- Devices ------------------------------------------------------------------------------------------------------

static void requireDevice(const State &state, int device) {
  if (device < 0 || device >= state.settings.devices)
    fail(invalidDevice, "device " + std::to_string(device) + " of " + std::to_string(state.settings.devices));
}

EXPORT int cuDeviceGetCount(int *count) {
  return call(__func__, needsInit, [&](State &state) { *count = state.settings.devices; });
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  return call(__func__, needsInit, [&](State &state) {
    requireDevice(state, ordinal);
    *device = ordinal;
  });
}

EXPORT int cuDeviceGetName(char *name, int bytes, int device) {
  return call(__func__, needsInit, [&](State &state) {
    requireDevice(state, device);
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", state.model().name);
  });
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return call(__func__, needsInit, [&](State &state) {
    requireDevice(state, device);
    const DeviceModel &model = state.model();
    const std::map<int, int> attributes = {{1, 1024},
                                           {2, 1024},
                                           {3, 1024},
                                           {4, 64},
                                           {5, 2147483647},
                                           {6, 65535},
                                           {7, 65535},
                                           {8, 48 << 10},
                                           {9, 64 << 10},
                                           {10, 32},
                                           {12, 65536},
                                           {13, model.clockKiloHertz},
                                           {16, model.multiprocessors},
                                           {18, 0},
                                           {19, 1},
                                           {20, 0},
                                           {31, 1},
                                           {36, model.memoryClockKiloHertz},
                                           {37, model.busBits},
                                           {38, model.l2Bytes},
                                           {39, 2048},
                                           {40, 3},
                                           {41, 1},
                                           {75, model.capability / 10},
                                           {76, model.capability % 10},
                                           {81, model.sharedPerMultiprocessor},
                                           {82, 65536},
                                           {95, 1},
                                           {97, model.sharedOptin},
                                           {106, 32},
                                           {111, 1024},
                                           {120, model.capability >= 90},
                                           {127, model.capability >= 90}};
    auto found = attributes.find(attribute);
    if (found == attributes.end())
      fail(invalidValue, "device attribute " + std::to_string(attribute) + ", which the stand-in does not know");
    *value = found->second;
  });
}

EXPORT int cuDeviceTotalMem_v2(std::size_t *bytes, int device) {
  return call(__func__, needsInit, [&](State &state) {
    requireDevice(state, device);
    *bytes = state.deviceMemory();
  });
}

// --- Contexts -----------------------------------------------------------------------------------------------------

EXPORT int cuDevicePrimaryCtxRetain(void **handle, int device) {
  return call(__func__, needsInit, [&](State &state) {
    requireDevice(state, device);
    std::shared_ptr<Context> &context = state.primary[device];
    if (!context) {
      context = std::make_shared<Context>();
      context->ordinal = device;
      context->legacy = std::make_shared<Stream>();
      context->legacy->context = state.add(context, 0);
    }
    ++context->references;
    giveHandle(handle, context->handle);
  });
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  return call(__func__, needsInit | releases, [&](State &state) {
    auto found = state.primary.find(device);
    if (found == state.primary.end()) {
      ++state.counters().invalidReleases;
      fail(invalidContext, "the device has no context");
    }
    std::shared_ptr<Context> context = found->second;
    if (--context->references)
      return;
    state.closeContext(*context, true);
    state.release<Context>(reinterpret_cast<void *>(context->handle), "context");
    state.primary.erase(device);
  });
}

EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  return call(__func__, needsInit | unsafeInCapture, [&](State &state) {
    requireDevice(state, device);
    auto found = state.primary.find(device);
    if (found == state.primary.end())
      return;
    state.closeContext(*found->second, false);
    found->second->lost = {};
  });
}

EXPORT int cuCtxSetCurrent(void *handle) {
  return call(__func__, needsInit, [&](State &state) {
    if (handle)
      state.find<Context>(handle, "context");
    threadState().context = reinterpret_cast<Handle>(handle);
  });
}

EXPORT int cuCtxGetCurrent(void **handle) {
  return call(__func__, needsInit, [&](State &) { giveHandle(handle, threadState().context); });
}

EXPORT int cuCtxGetDevice(int *device) {
  return call(__func__, needsContext, [&](State &state) { *device = state.current()->ordinal; });
}

EXPORT int cuCtxSynchronize() {
  return call(__func__, needsContext | unsafeInCapture, [&](State &state) {
    auto context = state.current();
    ++state.counters().synchronizations;
    state.runAll(*context);
    state.requireAlive(*context);
  });
}

// --- Modules ------------------------------------------------------------------------------------------------------

static std::shared_ptr<LoadedModule> loadModule(State &state, const char *image) {
  Cubin cubin;
  try {
    cubin = decodeCubin(image);
  } catch (const std::invalid_argument &error) {
    fail(invalidImage, error.what());
  }
  if (!isTaken(cubin, state.settings.driver))
    fail(cubin.isPtx() ? unsupportedPtxVersion : invalidImage,
         "the image is by NVRTC " + std::to_string(cubin.version) + ", newer than the driver, " +
             std::to_string(state.settings.driver));
  if (!runsOn(cubin.architecture, state.model().capability))
    fail(noBinaryForGpu, "the image is for " + cubin.architecture + ", the device has compute capability " +
                             std::to_string(state.model().capability / 10) + "." +
                             std::to_string(state.model().capability % 10));
  tcc::emulator::CompileOptions options;
  options.checks = !state.settings.plain;
  auto module = std::make_shared<LoadedModule>();
  try {
    module->code = tcc::emulator::Module::compile(cubin.text, options);
  } catch (const std::runtime_error &error) {
    fail(invalidImage, error.what());
  }
  module->kernels = tcc::emulator::kernelNames(cubin.text);
  ++state.counters().moduleLoads;
  return module;
}

EXPORT int cuModuleLoadDataEx(void **handle, const void *image, unsigned count, int *options, void **values) {
  return call(__func__, needsContext | unsafeInCapture, [&](State &state) {
    constexpr int errorLog = 5, errorLogBytes = 6;
    try {
      giveHandle(handle, state.add(loadModule(state, static_cast<const char *>(image)), state.current()->handle));
    } catch (const Failure &failure) {
      char *log = nullptr;
      std::size_t room = 0;
      for (unsigned i = 0; i < count; ++i) {
        if (options[i] == errorLog)
          log = static_cast<char *>(values[i]);
        if (options[i] == errorLogBytes)
          room = reinterpret_cast<std::uintptr_t>(values[i]);
      }
      if (log && room)
        std::snprintf(log, room, "%s", failure.text.c_str());
      throw;
    }
  });
}

EXPORT int cuModuleUnload(void *handle) {
  return call(__func__, needsContext | unsafeInCapture | releases, [&](State &state) {
    auto module = state.release<LoadedModule>(handle, "module");
    module->unloaded = true;
    for (Handle function : module->functions)
      state.counters().liveHandles -= state.objects.erase(function);
  });
}

EXPORT int cuModuleGetFunction(void **handle, void *module, const char *name) {
  return call(__func__, needsContext, [&](State &state) {
    auto loaded = state.find<LoadedModule>(module, "module");
    if (std::find(loaded->kernels.begin(), loaded->kernels.end(), name) == loaded->kernels.end())
      fail(notFound, std::string("no kernel is called `") + name + "`");
    auto function = std::make_shared<Function>();
    function->module = loaded;
    function->name = name;
    function->facts = loaded->code.facts(name);
    loaded->functions.push_back(state.add(function, loaded->context));
    giveHandle(handle, function->handle);
  });
}

EXPORT int cuModuleGetGlobal_v2(unsigned long long *, std::size_t *, void *module, const char *name) {
  return call(__func__, needsContext, [&](State &state) {
    state.find<LoadedModule>(module, "module");
    fail(notFound, std::string("`") + name + "`: emulated text has no variables");
  });
}

EXPORT int cuFuncSetAttribute(void *handle, int attribute, int value) {
  return call(__func__, needsContext, [&](State &state) {
    constexpr int maxDynamicShared = 8, carveout = 9;
    auto function = state.find<Function>(handle, "function");
    if (attribute == carveout)
      return;
    if (attribute != maxDynamicShared)
      fail(invalidValue, "function attribute " + std::to_string(attribute) + " cannot be set");
    if (value < 0 || value > state.model().sharedOptin)
      fail(invalidValue, std::to_string(value) + " bytes of dynamic shared memory; a block has at most " +
                             std::to_string(state.model().sharedOptin));
    function->dynamicShared = static_cast<std::size_t>(value);
  });
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *handle) {
  return call(__func__, needsContext, [&](State &state) {
    auto function = state.find<Function>(handle, "function");
    const std::map<int, int> attributes = {{0, function->facts.maxThreads},
                                           {1, 0},
                                           {2, 0},
                                           {3, 0},
                                           {4, 32},
                                           {5, state.model().capability},
                                           {6, state.model().capability},
                                           {8, static_cast<int>(function->dynamicShared)}};
    auto found = attributes.find(attribute);
    if (found == attributes.end())
      fail(invalidValue, "function attribute " + std::to_string(attribute) + ", which the stand-in does not know");
    *value = found->second;
  });
}

// --- Memory -------------------------------------------------------------------------------------------------------

EXPORT int cuMemAlloc_v2(unsigned long long *address, std::size_t bytes) {
  return call(__func__, needsContext | unsafeInCapture,
              [&](State &state) { *address = state.allocate(state.current(), bytes, false)->address(); });
}

EXPORT int cuMemFree_v2(unsigned long long address) {
  return call(__func__, needsContext | unsafeInCapture | releases, [&](State &state) {
    if (address)
      state.free(address, false);
  });
}

EXPORT int cuMemGetInfo_v2(std::size_t *unused, std::size_t *total) {
  return call(__func__, needsContext, [&](State &state) {
    Handle context = state.current()->handle;
    *unused = *total = state.deviceMemory();
    for (auto &[address, held] : state.memory)
      if (held->context == context && !held->pinned)
        *unused -= held->buffer.bytes();
  });
}

EXPORT int cuMemHostAlloc(void **address, std::size_t bytes, unsigned flags) {
  return call(__func__, needsContext | unsafeInCapture, [&](State &state) {
    if (flags > 7)
      fail(invalidValue, "flags of cuMemHostAlloc");
    giveHandle(address, state.allocate(state.current(), bytes, true)->address());
  });
}

EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned flags) {
  return call(__func__, needsContext, [&](State &state) {
    *device = reinterpret_cast<std::uintptr_t>(host);
    auto held = state.memoryAt(*device, 1);
    if (flags || !held || !held->pinned)
      fail(invalidValue, "not in page-locked memory");
  });
}

EXPORT int cuMemFreeHost(void *address) {
  return call(__func__, needsContext | unsafeInCapture | releases,
              [&](State &state) { state.free(reinterpret_cast<std::uintptr_t>(address), true); });
}

// --- Tensor maps --------------------------------------------------------------------------------------------------

EXPORT int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const std::uint64_t *sizes,
                                  const std::uint64_t *strides, const std::uint32_t *box, const std::uint32_t *steps,
                                  int interleave, int swizzle, int promotion, int fill) {
  return call(__func__, needsInit, [&](State &) {
    using tcc::emulator::MapElement;
    const std::map<int, MapElement> elements = {{1, MapElement::Bf16}, {9, MapElement::Bf16}, {6, MapElement::F16},
                                                {7, MapElement::F32},  {2, MapElement::F32},  {3, MapElement::F32}};
    if (reinterpret_cast<std::uintptr_t>(map) % 64)
      fail(invalidValue, "tensor map: the map must be aligned to 64 bytes");
    if (!elements.count(type) || rank < 1 || rank > 5 || interleave || swizzle < 0 || swizzle > 3 || promotion < 0 ||
        promotion > 3 || fill)
      fail(invalidValue, "tensor map: a type, rank, interleave, swizzle, promotion or fill that the stand-in lacks");
    if (std::any_of(steps, steps + rank, [](std::uint32_t step) { return step != 1; }))
      fail(invalidValue, "tensor map: element strides other than 1");
    tcc::emulator::TensorMapRequest request;
    request.element = elements.at(type);
    request.address = address;
    request.sizes.assign(sizes, sizes + rank);
    request.strides.assign(strides, strides + rank - 1);
    request.box.assign(box, box + rank);
    request.swizzle = swizzle ? 16 << swizzle : 0;
    try {
      tcc::emulator::EncodedMap encoded = tcc::emulator::makeTensorMap(request);
      const char *there = static_cast<const char *>(map);
      if (!currentSettings().staleMaps || std::all_of(there, there + sizeof encoded, [](char byte) { return !byte; }))
        std::memcpy(map, &encoded, sizeof encoded);
    } catch (const std::invalid_argument &error) {
      fail(invalidValue, error.what());
    }
  });
}

// --- The other stand-ins ------------------------------------------------------------------------------------------

static int enqueueForeign(void *stream, void (*run)(void *), void *argument, void (*destroy)(void *)) {
  std::shared_ptr<void> owned(argument, [destroy](void *held) {
    if (destroy)
      destroy(held);
  });
  return call("enqueue", needsContext, [&](State &state) {
    auto target = state.stream(stream);
    if (target->context != state.current()->handle)
      fail(invalidHandle, "work is put on a stream of another device than the current one");
    state.give(target, Work::Kind::Host, "another library's work", [owned, run] {
      State &state = State::get();
      state.foreignFault.clear();
      run(owned.get());
      return state.foreignFault.empty() ? Failure{} : Failure{illegalAddress, state.foreignFault};
    });
  });
}

static int isDeviceMemory(const void *address, std::size_t bytes) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  auto held = state.memoryAt(reinterpret_cast<std::uintptr_t>(address), bytes);
  // While work runs it is the work's device that counts, whatever thread waits for it.
  return held && !held->pinned && held->context == (state.open ? state.open->handle : threadState().context);
}

static void foreignFault(const char *text) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  state.foreignFault = text;
}

static int isCapturing(void *stream) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  const auto found = state.objects.find(reinterpret_cast<Handle>(stream));
  const auto *known = found == state.objects.end() ? nullptr : dynamic_cast<const Stream *>(found->second.get());
  return known && known->capture ? 1 : 0;
}

static int currentDevice() {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  const auto found = state.objects.find(threadState().context);
  return found == state.objects.end() ? -1 : static_cast<const Context &>(*found->second).ordinal;
}

static void advance() {
  State &state = State::get();
  std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock)
    return;
  for (const auto &[ordinal, context] : std::map(state.primary))
    state.runAll(*context);
  state.setOpen(nullptr);
}

/// The table is there as soon as the library is loaded.
[[maybe_unused]] static const bool hooked = [] {
  *tccStreamHook() = {enqueueForeign, isDeviceMemory, foreignFault, isCapturing, currentDevice, advance};
  return true;
}();
