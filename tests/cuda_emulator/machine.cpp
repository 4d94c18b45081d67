// The emulated multiprocessor: who runs when, blocks from start to end, launches.
#include "tests/cuda_emulator/machine.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <sys/mman.h>

namespace tcc::emulator {
namespace {

#ifdef TCC_EMULATOR_ASAN
constexpr std::size_t stackBytes = 512 * 1024;
#else
constexpr std::size_t stackBytes = 128 * 1024;
#endif

double processorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

Machine &Machine::get() {
  static Machine machine;
  return machine;
}

Machine::Machine() {
  // The arena's address is a multiple of 1 MiB, so that offsets in it are as aligned as addresses.
  char *mapped =
      static_cast<char *>(mmap(nullptr, 2 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (mapped == MAP_FAILED)
    throw std::runtime_error("no memory for the emulated shared memory");
  arena = reinterpret_cast<char *>((reinterpret_cast<std::uintptr_t>(mapped) + (1 << 20) - 1) & ~((1ull << 20) - 1));
  mprotect(arena, arenaMapped, PROT_READ | PROT_WRITE);
  shadow.configure(arenaMapped);
  table.arena = arena;
  table.arenaBytes = arenaMapped;
  table.access = [](const void *pointer, unsigned long bytes, bool write, void *place) {
    get().access(pointer, bytes, write, place);
  };
  table.readOnly = [](const void *pointer, unsigned long bytes) {
    get().enter("load_16_streaming", __builtin_return_address(0));
    get().globalAccess(pointer, bytes, GlobalShadow::Use::ReadOnly, get().current().place);
  };
  table.count = [](const void *pointer, unsigned long bytes, void *place) { get().count(pointer, bytes, place); };
  installWarpPrimitives(table);
  installHopperPrimitives(table);
  installWgmmaPrimitives(table);

  installFaultHandler();
}

// --- Scheduling ---------------------------------------------------------------------------------------------------

std::uint64_t Machine::random() {
  randomState ^= randomState << 13;
  randomState ^= randomState >> 7;
  randomState ^= randomState << 17;
  return randomState >> 11;
}

void Machine::yield() {
  Thread &self = *running;
#ifndef TCC_EMULATOR_ASAN // a sanitized fiber learns from the one before it where the scheduler's stack is
  if (Thread *next = nextLane()) {
    if (next != &self)
      switchFiber(self.fiber, next->fiber);
    return;
  }
#endif
  switchFiber(self.fiber, scheduler);
}

void Machine::threadMain() {
  Machine &machine = get();
  fiberStarted(&machine.scheduler);
  machine.kernelInvoke(machine.kernelArgs);
  machine.checkExit(*machine.running);
  machine.running->wait = Wait::Done;
  while (true)
    machine.yield();
}

void Machine::checkExit(Thread &thread) {
  bool copies = thread.openCopies.issued > 0;
  for (const CopyGroup &group : thread.copyGroups)
    copies |= group.issued > 0;
  if (copies)
    report(FindingKind::Leftover,
           "thread " + std::to_string(thread.view.x) + " ends with cp.async copies that it never waited for",
           thread.place);
  // The results may come later than the thread's end, the source may not go before it is read.
  bool stores = !thread.openStores.stores.empty();
  for (const StoreGroup &group : thread.storeGroups)
    stores |= !group.stores.empty() && !group.sourceFree;
  if (stores)
    report(FindingKind::Leftover,
           "thread " + std::to_string(thread.view.x) + " ends with TMA stores that it never waited for", thread.place);
}

void Machine::prepareStacks(int count) {
  if (count <= stackCount)
    return;
  if (stacks)
    munmap(stacks, stackCount * (stackBytes + pageBytes));
  stacks = static_cast<char *>(mmap(nullptr, count * (stackBytes + pageBytes), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (stacks == MAP_FAILED)
    throw std::runtime_error("no memory for the emulated threads' stacks");
  for (int i = 0; i < count; ++i)
    mprotect(stacks + i * (stackBytes + pageBytes), pageBytes, PROT_NONE);
  stackCount = count;
}

Thread *Machine::nextLane() {
  for (; !aborted; laneAt = 0, laneRan = false) {
    for (; laneAt < laneCount; ++laneAt) {
      Thread &thread = threads[laneOrder[laneAt]];
      if (thread.wait != Wait::None)
        continue;
      ++laneAt;
      laneRan = true;
      running = &thread;
      table.thread = &thread.view;
      return &thread;
    }
    if (!laneRan)
      break;
  }
  return nullptr;
}

int Machine::laggingLane() const {
  return !schedule.lanesLag ? 32 : schedule.order == Order::Reverse ? 0 : 31;
}

/// Runs the first lane that lags and could go on; false where there is none.
bool Machine::runLaggingLane(const std::vector<int> &warpOrder) {
  laneCount = laneAt = 0; // nobody follows it when it waits
  laneRan = false;
  for (int warp : warpOrder)
    if (int lane = laggingLane(); lane < 32 && threads[warp * 32 + lane].wait == Wait::None) {
      running = &threads[warp * 32 + lane];
      table.thread = &running->view;
      switchFiber(scheduler, running->fiber);
      running = nullptr;
      return true;
    }
  return false;
}

void Machine::runWarp(int warp) {
  int order[32];
  for (int i = 0; i < 32; ++i)
    order[i] = schedule.order == Order::Reverse ? 31 - i : i;
  if (schedule.order == Order::Random)
    for (int i = 31; i > 0; --i)
      std::swap(order[i], order[random() % (i + 1)]);
  laneCount = laneAt = 0;
  laneRan = false;
  for (int lane : order)
    if (lane != laggingLane())
      laneOrder[laneCount++] = warp * 32 + lane;
  while (Thread *thread = nextLane()) {
    switchFiber(scheduler, thread->fiber);
    running = nullptr;
  }
}

bool Machine::landSomething() {
  if (flights.empty())
    return false;
  std::size_t index = schedule.order == Order::Reverse  ? flights.size() - 1
                      : schedule.order == Order::Random ? random() % flights.size()
                                                        : 0;
  Flight flight = std::move(flights[index]);
  flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(index));
  land(flight);
  return true;
}

void Machine::explainStall() {
  struct Group {
    int first, last, count;
    const Thread *thread;
  };
  std::vector<Group> groups;
  int done = 0;
  for (Thread &thread : threads) {
    if (thread.wait == Wait::Done) {
      ++done;
      continue;
    }
    auto same = [&](const Group &g) { return g.thread->place == thread.place && g.thread->wait == thread.wait; };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end())
      groups.push_back({thread.view.x, thread.view.x, 1, &thread});
    else {
      found->last = thread.view.x;
      ++found->count;
    }
  }
  auto describe = [](const Group &g) {
    return std::to_string(g.count) + " threads (" + std::to_string(g.first) + " to " + std::to_string(g.last) +
           ") wait for ever at `" + g.thread->primitive + "`";
  };
  std::vector<std::pair<std::string, void *>> others;
  for (std::size_t i = 1; i < groups.size() && i < 5; ++i)
    others.emplace_back("; " + describe(groups[i]) + " at ", groups[i].thread->place);
  if (done)
    others.emplace_back("; " + std::to_string(done) + " threads have returned", nullptr);
  report(FindingKind::Divergence, describe(groups[0]), groups[0].thread->place, others);
}

void Machine::runBlock() {
  int warpCount = launchThreads / 32;
  if (schedule.countAccesses)
    traffic.startBlock(launchThreads);
  blockTick = newTick();
  shadow.startBlock(blockTick);
  if (schedule.checkAccesses)
    blockStarts.emplace_back(blockTick, blockIndex);
  ++tick;
#ifdef TCC_EMULATOR_ASAN
  __asan_unpoison_memory_region(arena, arenaMapped);
#endif
  std::memset(arena, 0xff, dynamicZone);
  if (dynamicBytes)
    std::memset(arena + dynamicZone, 0xff, dynamicBytes + 64 * 1024);
  warps.assign(warpCount, Warp{});
  warpgroups.assign((warpCount + 3) / 4, Warpgroup{});
  named.fill(NamedBarrier{});
  barriers.clear();
  flights.clear();
  unfinishedStores = 0;
  blockArrived = 0;
  dynamicStart = 0;
  Clock nothingKnown;
  if (schedule.checkAccesses)
    nothingKnown.reset(agents.count());
  for (Thread &thread : threads) {
    thread.wait = Wait::None;
    thread.primitive = "";
    thread.place = nullptr;
    thread.openCopies = {};
    thread.copyGroups.clear();
    thread.openStores = {};
    thread.storeGroups.clear();
    thread.passedPhase.clear();
    if (schedule.checkAccesses) {
      thread.clock = nothingKnown;
      thread.epoch = tick;
      thread.clock.raise(thread.view.x, tick);
    }
    thread.openCopies.epoch = thread.openStores.epoch = tick;
    thread.fiber.prepare(&threadMain);
  }
  int perThread = std::min(255, 65536 / (launchThreads * std::max(1, minBlocks))) / 8 * 8;
  for (Warp &warp : warps)
    warp.registers = perThread;
  freeRegisters = 0;

  std::vector<int> order(warpCount);
  for (int i = 0; i < warpCount; ++i)
    order[i] = schedule.order == Order::Reverse ? warpCount - 1 - i : i;
  while (!aborted) {
    if (schedule.order == Order::Random)
      for (int i = warpCount - 1; i > 0; --i)
        std::swap(order[i], order[random() % (i + 1)]);
    bool ran = false;
    for (int warp : order) {
      bool ready = false;
      for (int lane = 0; lane < 32 && !ready; ++lane)
        ready = lane != laggingLane() && threads[warp * 32 + lane].wait == Wait::None;
      if (!ready)
        continue;
      runWarp(warp);
      ran = true;
      if (aborted)
        return;
      if (schedule.async == Async::Random && chance(3))
        landSomething();
    }
    if (ran)
      continue;
    bool alive = std::any_of(threads.begin(), threads.end(), [](const Thread &t) { return t.wait != Wait::Done; });
    if (!alive && !flights.empty())
      report(FindingKind::Leftover,
             "the block ends while a TMA load is on its way; somebody waits for each, or it lands in another block's "
             "shared memory",
             nullptr);
    if (landSomething())
      continue;
    if (!aborted && runLaggingLane(order))
      continue;
    if (alive) {
      explainStall();
      aborted = true;
    }
    break;
  }
  if (!aborted)
    finishBlock();
}

void Machine::finishBlock() {
  if (schedule.countAccesses)
    traffic.finishBlock();
  for (Thread &thread : threads)
    finishStores(thread, 0);
  for (auto &[offset, barrier] : barriers)
    if (barrier.transactions != 0)
      report(FindingKind::Leftover,
             "the block ends while the mbarrier at shared offset " + std::to_string(offset) + " still counts " +
                 std::to_string(barrier.transactions) + " bytes; expected bytes and copied bytes must agree",
             nullptr);
  for (std::size_t i = 0; i < warpgroups.size(); ++i)
    if (!warpgroups[i].open.products.empty() || !warpgroups[i].groups.empty())
      report(FindingKind::Leftover, "warpgroup " + std::to_string(i) + " ends with wgmma that it never waited for",
             nullptr);
  for (std::size_t id = 0; id < named.size(); ++id)
    if (named[id].arrived)
      report(FindingKind::Leftover,
             "the block ends while named barrier " + std::to_string(id) + " holds " +
                 std::to_string(named[id].arrived) + " of " + std::to_string(named[id].expected) + " threads",
             nullptr);
  bool changed = false;
  for (Warp &warp : warps)
    changed |= warp.wantedRegisters != 0;
  for (std::size_t w = 0; changed && w + 3 < warps.size(); w += 4)
    for (std::size_t i = 1; i < 4; ++i)
      if (warps[w + i].registers != warps[w].registers)
        report(FindingKind::Protocol,
               "warps of warpgroup " + std::to_string(w / 4) +
                   " end with different register counts; all warps of a warpgroup execute the same setmaxnreg",
               nullptr);
#ifndef TCC_EMULATOR_ASAN
  // What lies after the block's shared memory must be as it was.
  if (dynamicStart) {
    const char *end = arena + dynamicStart + dynamicBytes;
    for (int i = 0; i < 32 * 1024; ++i)
      if (end[i] != '\xff') {
        report(FindingKind::OutOfBounds,
               "the block wrote " + std::to_string(i) + " bytes after its dynamic shared memory of " +
                   std::to_string(dynamicBytes),
               nullptr);
        break;
      }
  }
#endif
}

std::vector<RawFinding> Machine::launch(void (*invoke)(void **), void **args, Dim3 grid, int blockThreads,
                                        int blocksPerProcessor, std::size_t dynamicShared, const Schedule &chosen,
                                        LaunchResult &result) {
  double start = processorSeconds();
  prepareSignalStack();
  schedule = chosen;
  randomState = chosen.seed * 0x9E3779B97F4A7C15ull + 1;
  if (!randomState)
    randomState = 1;
  findings.clear();
  aborted = false;
  bankConflicts = 0;
  kernelInvoke = invoke;
  kernelArgs = args;
  launchThreads = blockThreads;
  minBlocks = blocksPerProcessor;
  agents.threads = blockThreads;
  dynamicBytes = dynamicShared;
  sharedArrays.clear();
  staticEnd = staticBase;
  prepareStacks(blockThreads);
  threads.resize(blockThreads);
  for (int i = 0; i < blockThreads; ++i) {
    Thread &thread = threads[i];
    char *low = stacks + i * (stackBytes + pageBytes) + pageBytes;
    thread.fiber.low = low;
    // Stacks that began alike in their pages would push each other out of the cache.
    thread.fiber.bytes = stackBytes - static_cast<std::size_t>(i % 16) * 256;
    thread.view = {i, i % 32, i / 32, low, low + stackBytes};
  }
  table.checking = chosen.checkAccesses;
  table.counting = chosen.countAccesses;
  traffic.total = {};
  table.blockSize = blockThreads;
  table.grid[0] = static_cast<int>(grid.x);
  table.grid[1] = static_cast<int>(grid.y);
  table.grid[2] = static_cast<int>(grid.z);
  if (chosen.checkAccesses)
    startGlobalShadow();

  std::vector<std::uint32_t> order(static_cast<std::size_t>(grid.x) * grid.y * grid.z);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::uint32_t>(chosen.order == Order::Reverse ? order.size() - 1 - i : i);
  if (chosen.order == Order::Random)
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[random() % (i + 1)]);
  for (std::uint32_t index : order) {
    blockIndex = index;
    table.block[0] = static_cast<int>(index % grid.x);
    table.block[1] = static_cast<int>(index / grid.x % grid.y);
    table.block[2] = static_cast<int>(index / grid.x / grid.y);
    runBlock();
    if (aborted)
      break;
  }
  if (chosen.checkAccesses)
    finishGlobalShadow();
  result.bankConflicts = bankConflicts;
  result.traffic = traffic.total;
  result.seconds = processorSeconds() - start;
  return std::move(findings);
}

// --- Clocks -------------------------------------------------------------------------------------------------------

void Machine::joinThreads(const std::vector<int> &members) {
  if (!schedule.checkAccesses)
    return;
  std::vector<Clock *> clocks;
  for (int member : members)
    clocks.push_back(&threads[member].clock);
  Clock::joinAll(clocks);
  std::uint32_t now = newTick();
  for (int member : members) {
    Thread &thread = threads[member];
    thread.epoch = now;
    thread.clock.raise(member, now);
  }
}

} // namespace tcc::emulator
