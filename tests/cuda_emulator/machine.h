// The emulated multiprocessor: one block at a time, a fiber a thread, warps run to their barrier one after another.
// Internal to the emulator; emulator.h is its face.
#pragma once

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/fiber.h"
#include "tests/cuda_emulator/global_shadow.h"
#include "tests/cuda_emulator/interface.h"
#include "tests/cuda_emulator/race.h"
#include "tests/cuda_emulator/traffic.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tcc::emulator {

/// A finding whose places are still program counters.
struct RawFinding {
  FindingKind kind;
  std::string text;
  void *place;
  std::vector<std::pair<std::string, void *>> others; // text before the place, place
};

enum class Wait { None, Warp, Block, Named, Barrier, Warpgroup, Registers, Done };

/// cp.async: nothing but bytes to move.
struct Copy {
  char *to;
  const char *from; // null: zeros
  int bytes;
};
struct CopyGroup {
  std::uint32_t epoch = 0;
  int issued = 0;
  std::vector<Copy> copies; // those that have not happened
};
/// A TMA box as runs of bytes between global and shared memory.
struct Transfer {
  struct Run {
    char *shared;
    char *global; // null: outside the tensor
    int bytes;
  };
  std::vector<Run> runs;
};
/// A TMA store: reads its source, some time later its bytes are in global memory.
struct Store {
  Transfer transfer;
  std::vector<char> bytes; // between the two
  bool wasRead, wasWritten;
  void *place;
  void read();
  void write();
  bool covers(const char *pointer, std::size_t size) const;
};
struct StoreGroup {
  std::uint32_t epoch = 0;
  std::vector<Store> stores;
  bool sourceFree = false; // somebody has waited for the reading
};

struct BarrierState;

struct Thread {
  ThreadView view{};
  Fiber fiber;
  Wait wait = Wait::None;
  int line = 0;
  const char *primitive = "";
  void *place = nullptr; // latest call into the emulator
  Clock clock;
  std::uint32_t epoch = 0;
  CopyGroup openCopies;
  std::deque<CopyGroup> copyGroups;
  StoreGroup openStores;
  std::deque<StoreGroup> storeGroups;
  BarrierState *barrier = nullptr;
  unsigned parity = 0;
  std::map<const BarrierState *, long> passedPhase;
};

struct Warp {
  const char *primitive = "";
  int line = 0, arrived = 0;
  std::array<void *, 32> operand{};
  int registers = 0, wantedRegisters = 0;
};

struct NamedBarrier {
  int expected = 0, arrived = 0;
  std::vector<int> warps, waiting;
  Clock clock;
};

struct BarrierState {
  int index = 0, count = 0, pending = 0;
  std::size_t offset = 0;
  long transactions = 0;
  long phase = 0; // completed phases
  Clock arriving, completed;
  Clock::Memory learnt; // by those who waited for `completed`
  bool initFenced = false;
  int initializer = -1;
};

/// A TMA load on its way.
struct Flight {
  Transfer transfer;
  BarrierState *barrier;
  int bytes;
  std::uint32_t epoch;
};

struct Accumulator {
  std::vector<float> value; // 64 × columns
  int columns = 0, inFlight = 0;
  std::array<float *, 128> registers{};
  long retired = -1;         // event at which it was written back
  std::vector<float> fenced; // what the registers held at the latest fence while free, thread by thread
};
struct Product {
  int accumulator;
  bool half, accumulate, fromRegisters, done = false;
  std::vector<unsigned long> addressA, addressB; // arena offset of each element
  std::vector<std::uint16_t> a;                  // 64 × 16 when from registers
  std::array<std::pair<const unsigned *, std::array<unsigned, 4>>, 128> registersA;
};
struct ProductGroup {
  std::uint32_t epoch = 0;
  std::vector<Product> products;
};
struct Warpgroup {
  const char *primitive = "";
  int line = 0, arrived = 0;
  std::array<void *, 128> operand{};
  std::vector<Accumulator> accumulators;
  ProductGroup open;
  std::deque<ProductGroup> groups;
  long event = 0, fenced = -1, waited = 0;
};

class Machine {
public:
  static Machine &get();

  std::vector<RawFinding> launch(void (*invoke)(void **), void **args, Dim3 grid, int blockThreads,
                                 int blocksPerProcessor, std::size_t dynamicShared, const Schedule &schedule,
                                 LaunchResult &result);

  Table table{};

  // Buffers
  void addBuffer(DeviceBuffer *buffer);
  void removeBuffer(DeviceBuffer *buffer);
  void forgetRecentBuffers() { recentBuffers.fill({}); }

  // --- For the primitives ---
  Thread &current() { return *running; }
  Warp &warpOf(const Thread &thread) { return warps[thread.view.warp]; }
  Warpgroup &warpgroupOf(const Thread &thread) { return warpgroups[thread.view.warp / 4]; }
  void enter(const char *primitive, void *place) {
    running->primitive = primitive;
    running->place = place;
  }
  /// Records a finding and ends the launch; on a fiber it does not return.
  [[noreturn]] void fail(FindingKind kind, std::string text);
  void report(FindingKind kind, std::string text, void *place, std::vector<std::pair<std::string, void *>> others = {});
  /// Gives the processor up until the thread's wait is over.
  void yield();
  /// The lane of each warp that runs only when no other can; 32 where none lags.
  int laggingLane() const;
  void sleep(Wait wait) {
    running->wait = wait;
    yield();
  }
  /// All 32 lanes meet; the last one runs `together` for all. It may put lanes to sleep.
  template <class Together>
  void collective(int line, void *operand, Together together);
  /// All 128 threads of a warpgroup meet.
  template <class Together>
  void warpgroupCollective(int line, void *operand, Together together);

  bool chance(unsigned inverse) { return random() % inverse == 0; }
  std::uint64_t random();
  bool runsEarly() { return schedule.async == Async::Early || (schedule.async == Async::Random && chance(2)); }

  /// Offset of a shared address whose `bytes` lie in the block's shared memory and are aligned; fails otherwise.
  std::size_t sharedOffset(const void *pointer, std::size_t bytes, std::size_t alignment);
  /// Fails unless the bytes lie in one device buffer.
  void requireGlobal(const void *pointer, std::size_t bytes, std::size_t alignment);
  void access(const void *pointer, std::size_t bytes, bool write, void *place);
  /// For Schedule::countAccesses; memory that is neither shared nor a buffer's does not count.
  void count(const void *pointer, std::size_t bytes, void *place);
  void sharedAccess(std::size_t offset, std::size_t bytes, bool write, int agent, std::uint32_t epoch,
                    const Clock &clock, bool asynchronous, void *place);
  void globalAccess(const void *pointer, std::size_t bytes, GlobalShadow::Use use, void *place);

  // Clocks
  std::uint32_t newTick() { return ++tick; }
  void bump(Thread &thread) {
    thread.epoch = newTick();
    thread.clock.raise(thread.view.x, thread.epoch);
  }
  void joinThreads(const std::vector<int> &members);

  // mbarriers and TMA
  BarrierState &barrierAt(const void *pointer);
  void completePhases(BarrierState &barrier);
  bool passes(const BarrierState &barrier, unsigned parity) const {
    return (static_cast<unsigned>(barrier.phase) & 1u) != parity;
  }
  void land(Flight &flight);
  void finishCopies(Thread &thread, std::size_t pending);
  /// Waits for the sources of all but `pending` groups to have been read.
  void readStores(Thread &thread, std::size_t pending);
  /// Waits for all but `pending` groups to have arrived.
  void finishStores(Thread &thread, std::size_t pending);
  const Store *unfinishedStoreOver(const char *pointer, std::size_t bytes) const;
  void grantRegisters();

  void *sharedArray(int id, std::size_t bytes, std::size_t alignment);
  void *dynamicShared(std::size_t alignment);

  Schedule schedule;
  Agents agents;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::array<NamedBarrier, 16> named;
  std::map<std::size_t, BarrierState> barriers; // by arena offset
  std::deque<Flight> flights;
  long unfinishedStores = 0; // issued and not waited for, by all threads
  int blockArrived = 0, launchThreads = 0, minBlocks = 1;
  int freeRegisters = 0; // released by warps of this block, times 32 threads
  std::uint64_t bankConflicts = 0;
  TrafficCounter traffic;
  char *arena = nullptr;

private:
  Machine();
  static void threadMain();
  /// Kernels that leave their buffers hit a page without access; the handler turns that into a finding.
  static void installFaultHandler();
  /// The stack of signal handlers, one a thread that launches: a kernel may have used up its own.
  static void prepareSignalStack();
  static void onFaultInfo(int signal, void *info, void *context);
  static void faultLanding();
  void runBlock();
  /// Lanes of the warp run in turn, each until it waits, until all of them do.
  void runWarp(int warp);
  bool runLaggingLane(const std::vector<int> &warpOrder);
  /// The lane whose turn it is, made the running one; null when all of the warp wait.
  Thread *nextLane();
  bool landSomething();
  void explainStall();
  void checkExit(Thread &thread);
  void finishBlock();
  void prepareStacks(int count);
  void startGlobalShadow();
  void finishGlobalShadow();

  static constexpr std::size_t pageBytes = 4096;

  friend class DeviceBuffer;
  static constexpr std::size_t arenaMapped = 512 * 1024, staticBase = 1024, dynamicZone = staticBase + 48 * 1024;
  std::vector<RawFinding> findings;
  bool aborted = false;
  Thread *running = nullptr;
  Fiber scheduler;
  int laneOrder[32] = {}, laneCount = 0, laneAt = 0; // threads of the running warp, and the next one's place
  bool laneRan = false;                              // whether any has run in this pass over the warp
  char *stacks = nullptr;
  int stackCount = 0;
  std::uint64_t randomState = 1;
  std::uint32_t tick = 0;
  Shadow shadow;
  std::map<int, std::pair<std::size_t, std::size_t>> sharedArrays; // id → offset, bytes
  std::size_t staticEnd = staticBase, dynamicStart = 0, dynamicBytes = 0;
  void (*kernelInvoke)(void **) = nullptr;
  void **kernelArgs = nullptr;
  std::uint32_t blockIndex = 0;
  std::map<const char *, DeviceBuffer *> buffers; // by base
  struct RecentBuffer {
    const char *begin = nullptr, *end = nullptr;
    DeviceBuffer *buffer = nullptr;
  };
  std::array<RecentBuffer, 4> recentBuffers{}; // looked at first
  std::size_t nextRecent = 0;
  std::uint32_t launchTick = 0, blockTick = 0;                      // epochs up to these are of earlier ones
  std::vector<std::pair<std::uint32_t, std::uint32_t>> blockStarts; // of a checked launch: tick, block
  void *faultAddress = nullptr, *faultPlace = nullptr;
  void globalAccess(DeviceBuffer &buffer, const void *pointer, std::size_t bytes, GlobalShadow::Use use, void *place);
  DeviceBuffer *bufferAt(const void *pointer, std::size_t bytes, bool nearby = false);
  /// "byte 12 of `name`, which has 8".
  std::string describeAddress(const char *address);
};

/// The float that each f16 stands for.
const float *halfValues();
/// The float that a bf16 stands for, or, given `halfValues`, an f16.
inline float elementValue(std::uint16_t bits, const float *half) {
  if (half)
    return half[bits];
  std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

/// Functions of the table, by file.
void installWarpPrimitives(Table &table);
void installHopperPrimitives(Table &table);
void installWgmmaPrimitives(Table &table);

template <class Together>
void Machine::collective(int line, void *operand, Together together) {
  Thread &thread = *running;
  Warp &warp = warpOf(thread);
  if (warp.arrived && (warp.line != line || warp.primitive != thread.primitive))
    fail(FindingKind::Divergence, "lane " + std::to_string(thread.view.lane) + " reaches `" + thread.primitive +
                                      "` while other lanes of its warp wait at `" + warp.primitive +
                                      "`; all lanes of a warp take part in each collective");
  warp.primitive = thread.primitive;
  warp.line = line;
  warp.operand[thread.view.lane] = operand;
  if (++warp.arrived < 32) {
    sleep(Wait::Warp);
    return;
  }
  warp.arrived = 0;
  Thread *first = &threads[thread.view.warp * 32];
  for (int lane = 0; lane < 32; ++lane)
    first[lane].wait = Wait::None;
  together(first, warp.operand.data());
  if (thread.wait != Wait::None)
    yield();
}

template <class Together>
void Machine::warpgroupCollective(int line, void *operand, Together together) {
  Thread &thread = *running;
  Warpgroup &group = warpgroupOf(thread);
  if (thread.view.warp / 4 * 128 + 128 > launchThreads)
    fail(FindingKind::Divergence, std::string("`") + thread.primitive + "` in a warpgroup of fewer than 128 threads");
  if (group.arrived && (group.line != line || group.primitive != thread.primitive))
    fail(FindingKind::Divergence, std::string("thread ") + std::to_string(thread.view.x) + " reaches `" +
                                      thread.primitive + "` while others of its warpgroup wait at `" + group.primitive +
                                      "`; all 128 threads take part");
  group.primitive = thread.primitive;
  group.line = line;
  group.operand[thread.view.x % 128] = operand;
  if (++group.arrived < 128) {
    sleep(Wait::Warpgroup);
    return;
  }
  group.arrived = 0;
  Thread *first = &threads[thread.view.warp / 4 * 128];
  for (int i = 0; i < 128; ++i)
    first[i].wait = Wait::None;
  together(first, group.operand.data());
  if (thread.wait != Wait::None)
    yield();
}

} // namespace tcc::emulator
