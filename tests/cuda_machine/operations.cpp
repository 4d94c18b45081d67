// Exported functions of the driver's stand-in that put work on streams: copies, fills, launches.
#include "tests/cuda_machine/exports.h"

#include <cstring>

using namespace tcc::machine;

namespace {

/// cuLaunchKernelEx's configuration.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int flag;
  } value;
};
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  void *stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
constexpr int attributeCooperative = 2, attributeCluster = 4, attributeProgrammatic = 6;

/// A kernel's arguments, copied at the launch as the driver does.
class Arguments {
public:
  Arguments(const std::vector<std::size_t> &sizes, void **given) {
    std::size_t bytes = 0;
    for (std::size_t size : sizes)
      bytes += rounded(size);
    storage.resize(bytes / sizeof(Line));
    std::size_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      pointers.push_back(reinterpret_cast<char *>(storage.data()) + at);
      std::memcpy(pointers.back(), given[i], sizes[i]);
      at += rounded(sizes[i]);
    }
    pointers.push_back(nullptr);
  }
  void **get() { return pointers.data(); }

private:
  struct alignas(64) Line { // tensor maps are aligned to 64
    char bytes[64];
  };
  static std::size_t rounded(std::size_t size) { return (size + sizeof(Line) - 1) / sizeof(Line) * sizeof(Line); }
  std::vector<Line> storage;
  std::vector<void *> pointers;
};

Failure failureOf(const std::string &kernel, const tcc::emulator::LaunchResult &result) {
  using tcc::emulator::FindingKind;
  if (result.ok())
    return {};
  std::string text = kernel + ": " + result.text();
  text.pop_back();
  return {result.has(FindingKind::OutOfBounds)  ? illegalAddress
          : result.has(FindingKind::Misaligned) ? misalignedAddress
                                                : launchFailed,
          text};
}

void checkAttributes(const State &state, const LaunchConfig &config) {
  for (unsigned i = 0; i < config.attributeCount; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id == attributeCooperative && attribute.value.flag)
      fail(notSupported, "cooperative launches");
    else if (attribute.id == attributeProgrammatic && state.model().capability < 90)
      fail(notSupported, "programmatic launches need compute capability 9.0");
    else if (attribute.id == attributeCluster)
      for (int axis = 0; axis < 3; ++axis) {
        unsigned blocks = attribute.value.cluster[axis];
        if (blocks == 0 || config.grid[axis] % blocks || (blocks > 1 && state.model().capability < 90))
          fail(invalidClusterSize,
               "clusters of " + std::to_string(blocks) + " blocks in a grid of " + std::to_string(config.grid[axis]));
      }
    else if (attribute.id != attributeCooperative && attribute.id != attributeProgrammatic && attribute.id != 0)
      fail(notSupported, "launch attribute " + std::to_string(attribute.id) + ", which the stand-in does not know");
  }
}

void launch(State &state, const LaunchConfig &config, void *handle, void **parameters, void **extra) {
  auto function = state.find<Function>(handle, "function");
  auto stream = state.stream(config.stream);
  if (stream->context != state.current()->handle || function->context != stream->context)
    fail(invalidHandle, "kernel `" + function->name + "`, its stream and the current context are of different devices");
  const auto &sizes = function->facts.parameterBytes;
  if (extra || (!parameters && !sizes.empty()))
    fail(invalidValue, "kernel `" + function->name + "` without its parameters");
  checkAttributes(state, config);
  tcc::emulator::Dim3 grid{config.grid[0], config.grid[1], config.grid[2]};
  tcc::emulator::Dim3 block{config.block[0], config.block[1], config.block[2]};
  if (std::string text = function->module->code.refusal(function->name, grid, block, config.sharedBytes); !text.empty())
    fail(invalidValue, "kernel `" + function->name + "`: " + text);
  if (config.sharedBytes > function->dynamicShared)
    fail(invalidValue, "kernel `" + function->name + "`: " + std::to_string(config.sharedBytes) +
                           " bytes of dynamic shared memory; it was allowed " +
                           std::to_string(function->dynamicShared));
  auto arguments = std::make_shared<Arguments>(sizes, parameters);
  state.give(stream, Work::Kind::Kernel, function->name,
             [module = function->module, name = function->name, grid, block, shared = config.sharedBytes, arguments] {
               if (module->unloaded)
                 return Failure{launchFailed, "kernel `" + name + "` of a module that was unloaded"};
               State &state = State::get();
               tcc::emulator::Schedule schedule = state.settings.schedule;
               schedule.seed += ++state.launchNumber;
               return failureOf(name, module->code.launch(name, grid, block, shared, arguments->get(), schedule));
             });
}

/// Device memory that an operation uses, looked up when it is given and looked at again when it runs.
class Range {
public:
  Range(State &state, const std::shared_ptr<Stream> &stream, unsigned long long address, std::size_t bytes,
        const char *what)
      : held(state.memoryAt(address, bytes)), at(address) {
    if (!held || held->context != stream->context)
      fail(invalidValue, std::string(what) + " of " + std::to_string(bytes) +
                             " bytes, which do not lie in one live "
                             "allocation of the stream's device");
  }
  char *pointer() const {
    if (held->freed)
      fail(illegalAddress, held->buffer.name() + " was freed before an operation given earlier ran");
    return reinterpret_cast<char *>(at);
  }

private:
  std::shared_ptr<Memory> held;
  std::uintptr_t at;
};

/// Host memory of a copy: page-locked or not. Device memory is refused.
std::shared_ptr<Memory> pinnedMemory(State &state, const void *host, std::size_t bytes) {
  auto held = state.memoryAt(reinterpret_cast<std::uintptr_t>(host), bytes);
  if (held && !held->pinned)
    fail(invalidValue, "device memory in place of host memory");
  if (auto begin = state.memoryAt(reinterpret_cast<std::uintptr_t>(host), 1); begin && !held)
    fail(invalidValue, std::to_string(bytes) + " bytes, more than lie in the page-locked memory");
  return held;
}

void giveCopyToDevice(State &state, const std::shared_ptr<Stream> &stream, unsigned long long to, const void *from,
                      std::size_t bytes) {
  if (!bytes)
    return;
  Range target(state, stream, to, bytes, "copy to");
  auto pinned = pinnedMemory(state, from, bytes);
  std::shared_ptr<std::vector<char>> staged;
  if (!pinned) {
    if (stream->capture) {
      state.invalidate(*stream->capture, "a copy from pageable memory");
      fail(captureUnsupported, "a copy from pageable memory, which is not asynchronous");
    }
    state.refuseWhileCapturing("a copy from pageable memory");
    const char *first = static_cast<const char *>(from);
    staged = std::make_shared<std::vector<char>>(first, first + bytes);
  }
  state.give(stream, Work::Kind::Copy, "copy to the device", [target, pinned, staged, from, bytes] {
    if (pinned && pinned->freed)
      return Failure{illegalAddress, pinned->buffer.name() + " was freed before a copy from it ran"};
    std::memcpy(target.pointer(), staged ? staged->data() : from, bytes);
    State::get().counters().bytesToDevice += bytes;
    return Failure{};
  });
}

void giveCopyToHost(State &state, const std::shared_ptr<Stream> &stream, void *to, unsigned long long from,
                    std::size_t bytes) {
  if (!bytes)
    return;
  Range source(state, stream, from, bytes, "copy from");
  auto pinned = pinnedMemory(state, to, bytes);
  if (!pinned) {
    if (stream->capture) {
      state.invalidate(*stream->capture, "a copy to pageable memory");
      fail(captureUnsupported, "a copy to pageable memory, which is not asynchronous");
    }
    state.refuseWhileCapturing("a copy to pageable memory");
  }
  state.give(stream, Work::Kind::Copy, "copy to the host", [source, pinned, to, bytes] {
    if (pinned && pinned->freed)
      return Failure{illegalAddress, pinned->buffer.name() + " was freed before a copy to it ran"};
    std::memcpy(to, source.pointer(), bytes);
    State::get().counters().bytesToHost += bytes;
    return Failure{};
  });
  if (!pinned) { // the call returns when the bytes are there
    ++state.counters().synchronizations;
    state.runUntil(stream, stream->given);
    state.requireAlive(*state.contextOf(*stream));
  }
}

void giveCopyOnDevice(State &state, const std::shared_ptr<Stream> &stream, unsigned long long to,
                      unsigned long long from, std::size_t bytes) {
  if (!bytes)
    return;
  Range target(state, stream, to, bytes, "copy to"), source(state, stream, from, bytes, "copy from");
  if (to < from + bytes && from < to + bytes)
    fail(invalidValue, "a copy between overlapping bytes");
  state.give(stream, Work::Kind::Copy, "copy on the device", [target, source, bytes] {
    std::memcpy(target.pointer(), source.pointer(), bytes);
    return Failure{};
  });
}

template <class Element>
int fill(const char *symbol, unsigned long long to, Element value, std::size_t count, void *stream) {
  return call(symbol, needsContext, [&](State &state) {
    if (!count)
      return;
    auto target = state.stream(stream);
    if (to % sizeof(Element))
      fail(invalidValue, "the address is not a multiple of the element's size");
    Range range(state, target, to, count * sizeof(Element), "fill");
    state.give(target, Work::Kind::Copy, "fill", [range, value, count] {
      char *at = range.pointer();
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(at + i * sizeof(Element), &value, sizeof(Element));
      return Failure{};
    });
  });
}

/// A synchronous copy: on the legacy stream, then a wait for it.
template <class Give>
int copyNow(const char *symbol, Give give) {
  return call(symbol, needsContext | unsafeInCapture, [&](State &state) {
    auto stream = state.stream(nullptr);
    give(state, stream);
    ++state.counters().synchronizations;
    state.runUntil(stream, stream->given);
    state.requireAlive(*state.contextOf(*stream));
  });
}

} // namespace

// --- Copies and fills ---------------------------------------------------------------------------------------------

EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, std::size_t bytes, void *stream) {
  return call(__func__, needsContext,
              [&](State &state) { giveCopyToDevice(state, state.stream(stream), to, from, bytes); });
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, std::size_t bytes, void *stream) {
  return call(__func__, needsContext,
              [&](State &state) { giveCopyToHost(state, state.stream(stream), to, from, bytes); });
}

EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes, void *stream) {
  return call(__func__, needsContext,
              [&](State &state) { giveCopyOnDevice(state, state.stream(stream), to, from, bytes); });
}

EXPORT int cuMemcpyHtoD_v2(unsigned long long to, const void *from, std::size_t bytes) {
  return copyNow(__func__, [&](State &state, auto &stream) { giveCopyToDevice(state, stream, to, from, bytes); });
}

EXPORT int cuMemcpyDtoH_v2(void *to, unsigned long long from, std::size_t bytes) {
  return copyNow(__func__, [&](State &state, auto &stream) { giveCopyToHost(state, stream, to, from, bytes); });
}

EXPORT int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, std::size_t bytes) {
  return copyNow(__func__, [&](State &state, auto &stream) { giveCopyOnDevice(state, stream, to, from, bytes); });
}

EXPORT int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t count, void *stream) {
  return fill(__func__, to, value, count, stream);
}

EXPORT int cuMemsetD16Async(unsigned long long to, unsigned short value, std::size_t count, void *stream) {
  return fill(__func__, to, value, count, stream);
}

EXPORT int cuMemsetD32Async(unsigned long long to, unsigned value, std::size_t count, void *stream) {
  return fill(__func__, to, value, count, stream);
}

// --- Launches -----------------------------------------------------------------------------------------------------

EXPORT int cuLaunchKernelEx(const LaunchConfig *config, void *function, void **parameters, void **extra) {
  return call(__func__, needsContext, [&](State &state) { launch(state, *config, function, parameters, extra); });
}

EXPORT int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                          unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *stream, void **parameters,
                          void **extra) {
  return call(__func__, needsContext, [&](State &state) {
    launch(state, {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, stream, nullptr, 0}, function,
           parameters, extra);
  });
}

EXPORT int cuLaunchHostFunc(void *stream, void (*run)(void *), void *argument) {
  return call(__func__, needsContext, [&](State &state) {
    state.give(state.stream(stream), Work::Kind::Host, "host function", [run, argument] {
      State &state = State::get();
      state.insideHostFunction = true;
      run(argument);
      state.insideHostFunction = false;
      return Failure{};
    });
  });
}
