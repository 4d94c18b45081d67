// The driver's stand-in inside: contexts, memory, streams, events, graphs, and how their work runs. Everything happens
// under the lock of call(). Names and rules are those of the driver's documentation.
#pragma once

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/settings.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tcc::machine {

/// The driver's error codes that the stand-in gives.
enum Result : int {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notInitialized = 3,
  noDevice = 100,
  invalidDevice = 101,
  invalidImage = 200,
  invalidContext = 201,
  noBinaryForGpu = 209,
  unsupportedPtxVersion = 222,
  invalidHandle = 400,
  illegalState = 401,
  notFound = 500,
  notReady = 600,
  illegalAddress = 700,
  contextIsDestroyed = 709,
  misalignedAddress = 716,
  launchFailed = 719,
  notPermitted = 800,
  notSupported = 801,
  captureUnsupported = 900,
  captureInvalidated = 901,
  captureMerge = 902,
  captureUnmatched = 903,
  captureUnjoined = 904,
  captureIsolation = 905,
  captureImplicit = 906,
  capturedEvent = 907,
  captureWrongThread = 908,
  graphUpdateFailure = 910,
  invalidClusterSize = 912,
  unknown = 999
};
/// "CUDA_ERROR_…" and a sentence, or null.
const char *errorName(int code);
const char *errorSentence(int code);

/// Thrown by the body of a call; its text is told by cuGetErrorString.
struct Failure {
  int code = success;
  std::string text;
};
[[noreturn]] void fail(int code, std::string text);

using Handle = std::uintptr_t;

/// What a handle stands for. Handles are never used again, so a late use is found out.
struct Object {
  Handle handle = 0;
  Handle context = 0;
  virtual ~Object() = default;
  /// "stream", for texts.
  virtual const char *what() const = 0;
};

struct Memory {
  Memory(std::size_t bytes, const std::string &name) : buffer(bytes, name) {}
  emulator::DeviceBuffer buffer;
  Handle context = 0;
  bool pinned = false, freed = false;
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(buffer.data()); }
  bool covers(std::uintptr_t from, std::size_t bytes) const {
    return from >= address() && from - address() <= buffer.bytes() && bytes <= buffer.bytes() - (from - address());
  }
};

struct Stream;
struct Context final : Object {
  int ordinal = 0, references = 0;
  Failure lost; // the error that every call returns from then on
  std::shared_ptr<Stream> legacy;
  std::vector<std::shared_ptr<Stream>> streams; // destroyed ones with unfinished work too
  const char *what() const override { return "context"; }
};

/// Something that a stream does; run any number of times where a graph holds it.
struct Work {
  enum class Kind { Kernel, Copy, Host, Graph, Marker };
  Kind kind;
  std::string name;
  std::shared_ptr<Context> context;
  std::function<Failure()> run;
};

/// The stream's work up to `number`.
struct Ticket {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;
};

struct Node {
  std::shared_ptr<Work> work;
  std::vector<int> after;
};

/// A capture between its begin and end, shared by all streams in it.
struct Capture {
  std::vector<Node> nodes;
  std::weak_ptr<Stream> origin;
  std::vector<std::weak_ptr<Stream>> members;
  int mode = 0;
  std::thread::id thread;
  bool invalid = false, ended = false;
  std::string why;
};

struct Stream final : Object {
  struct Entry {
    std::shared_ptr<Work> work;
    std::vector<Ticket> after;
  };
  bool blocking = true, destroyed = false;
  std::deque<Entry> pending;
  std::uint64_t given = 0, done = 0;
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier; // nodes that the next one of this stream follows
  const char *what() const override { return "stream"; }
};

struct Event final : Object {
  struct Record {
    Ticket ticket;
    double time = 0;
    bool reached() const { return ticket.stream->done >= ticket.number; }
  };
  bool timing = true;
  std::shared_ptr<Record> record;   // of the latest cuEventRecord outside captures
  std::shared_ptr<Capture> capture; // or the capture that it was recorded in
  std::vector<int> frontier;
  const char *what() const override { return "event"; }
};

struct LoadedModule final : Object {
  emulator::Module code;
  std::vector<std::string> kernels;
  std::vector<Handle> functions;
  bool unloaded = false;
  const char *what() const override { return "module"; }
};

struct Function final : Object {
  std::shared_ptr<LoadedModule> module;
  std::string name;
  emulator::KernelFacts facts;
  std::size_t dynamicShared = 48 * 1024;
  const char *what() const override { return "function"; }
};

struct Graph final : Object {
  std::vector<Node> nodes;
  const char *what() const override { return "graph"; }
};

struct ExecutableGraph final : Object {
  std::shared_ptr<const std::vector<Node>> nodes;
  Ticket latest;
  const char *what() const override { return "executable graph"; }
};

struct DeviceModel {
  const char *name;
  int capability, multiprocessors, clockKiloHertz, memoryClockKiloHertz, busBits, l2Bytes, sharedPerMultiprocessor,
      sharedOptin;
  std::size_t memory;
};

struct State {
  std::recursive_mutex mutex;
  bool initialized = false;
  Settings settings;
  std::map<Handle, std::shared_ptr<Object>> objects;
  std::map<int, std::shared_ptr<Context>> primary; // by device
  std::map<std::uintptr_t, std::shared_ptr<Memory>> memory;
  std::deque<std::shared_ptr<Memory>> retired; // freed memory, whose addresses stay closed
  std::vector<std::weak_ptr<Capture>> captures;
  std::map<int, std::string> details; // latest text of each code
  std::uint64_t allocationNumber = 0, launchNumber = 0, waitNumber = 0, randomState = 1;
  bool insideHostFunction = false;
  int planned = success;         // what the running call returns whatever it does
  std::string foreignFault;      // what an operation of another stand-in complains of while it runs
  std::shared_ptr<Context> open; // whose memory is accessible

  static State &get();
  TccMachineCounters &counters() { return *tccMachineCounters(); }
  const DeviceModel &model() const;
  std::size_t deviceMemory() const;
  bool chance(unsigned inverse);

  // --- Handles ---
  Handle add(std::shared_ptr<Object> object, Handle context);
  /// Throws invalidHandle where the handle is not a live one of this kind.
  template <class Kind>
  std::shared_ptr<Kind> find(const void *handle, const char *what) {
    auto found = objects.find(reinterpret_cast<Handle>(handle));
    auto object = found == objects.end() ? nullptr : std::dynamic_pointer_cast<Kind>(found->second);
    if (!object)
      fail(invalidHandle, std::string("not a live ") + what);
    return object;
  }
  /// Forgets a handle; counts an invalid release and throws where there is none.
  template <class Kind>
  std::shared_ptr<Kind> release(const void *handle, const char *what) {
    if (!objects.count(reinterpret_cast<Handle>(handle)))
      ++counters().invalidReleases;
    auto object = find<Kind>(handle, what);
    objects.erase(object->handle);
    --counters().liveHandles;
    return object;
  }

  // --- Contexts ---
  /// The context of the calling thread; throws invalidContext where there is none.
  std::shared_ptr<Context> current();
  std::shared_ptr<Context> contextOf(const Object &object);
  /// Every call on the context returns this failure from now on.
  void lose(Context &context, Failure failure);
  void requireAlive(const Context &context);
  /// Makes the memory of this context alone accessible; of none: closes all.
  void setOpen(std::shared_ptr<Context> context);
  /// Frees what the context holds; counts it as leaked, if so.
  void closeContext(Context &context, bool leaks);

  // --- Memory (memory.cpp) ---
  std::shared_ptr<Memory> allocate(const std::shared_ptr<Context> &context, std::size_t bytes, bool pinned);
  void free(std::uintptr_t address, bool pinned);
  /// The live memory that holds the bytes, or null.
  std::shared_ptr<Memory> memoryAt(std::uintptr_t address, std::size_t bytes);

  // --- Streams (queue.cpp) ---
  /// A stream by its handle; null and 1 are the legacy stream of the current context.
  std::shared_ptr<Stream> stream(const void *handle);
  /// Puts work after what is on the stream, or into its capture.
  void give(const std::shared_ptr<Stream> &stream, Work::Kind kind, std::string name, std::function<Failure()> run,
            std::vector<Ticket> after = {});
  void runUntil(const std::shared_ptr<Stream> &stream, std::uint64_t number);
  void runAll(Context &context);
  /// One operation of the stream, so that a program that polls gets on.
  void step(const std::shared_ptr<Stream> &stream);
  Failure runNodes(const std::vector<Node> &nodes);
  Failure runWork(const Work &work);

  // --- Captures (capture.cpp) ---
  void refuseWhileCapturing(const char *symbol);
  void invalidate(Capture &capture, const std::string &why);
  void beginCapture(const std::shared_ptr<Stream> &stream, int mode);
  std::shared_ptr<Graph> endCapture(const std::shared_ptr<Stream> &stream);
  void captureWork(Stream &stream, std::shared_ptr<Work> work);
  void recordEvent(Event &event, const std::shared_ptr<Stream> &stream);
  void waitForEvent(const std::shared_ptr<Stream> &stream, Event &event);
  /// Throws where the event was recorded in a capture.
  void refuseCaptured(Event &event, const char *symbol);
};

/// What a call needs or does.
enum Needs : unsigned {
  needsNothing = 0,
  needsInit = 1,
  needsContext = 2 | needsInit,
  /// May not be called while something is captured.
  unsafeInCapture = 4,
  /// Takes effect even where it returns an error.
  releases = 8,
};

/// The calling thread's interaction mode and current context.
struct ThreadState {
  Handle context = 0;
  int captureMode = 0;
};
ThreadState &threadState();

/// Runs a call of the driver: counts it, fails where that is planned, checks what it needs, turns failures into codes.
int call(const char *symbol, unsigned needs, const std::function<void(State &)> &body);

} // namespace tcc::machine
