// mbarrier, TMA, bulk copies, proxy fences, setmaxnreg.
#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/tensor_map.h"

#include <algorithm>
#include <cstring>

#define ENTER(primitive)                                                                                               \
  Machine &machine = Machine::get();                                                                                   \
  machine.enter(primitive, __builtin_return_address(0))

namespace tcc::emulator {
namespace {

constexpr std::uint64_t barrierMagic = 0x7ccba771e5000000ull;

void fenceProxyAsync() {
  ENTER("fence_proxy_async");
  if (!machine.schedule.checkAccesses)
    return;
  Thread &thread = machine.current();
  int self = thread.view.x, copies = machine.agents.copies(self);
  thread.clock.raise(self, thread.epoch, thread.epoch);
  thread.clock.raise(copies, 0, thread.clock.known(copies));
  machine.bump(thread); // later writes are not covered
}

// --- mbarrier -----------------------------------------------------------------------------------------------------

void fenceMbarrierInit() {
  ENTER("fence_mbarrier_init");
  for (auto &[offset, barrier] : machine.barriers)
    if (barrier.initializer == machine.current().view.x)
      barrier.initFenced = true;
}

void mbarrierInit(void *pointer, int count) {
  ENTER("mbarrier_init");
  std::size_t offset = machine.sharedOffset(pointer, 8, 8);
  if (count < 1 || count >= 1 << 20)
    machine.fail(FindingKind::Protocol,
                 "an mbarrier of " + std::to_string(count) + " arrivals; the count is 1 to 2^20 - 1");
  if (machine.barriers.count(offset))
    machine.fail(FindingKind::Protocol, "an mbarrier initialised twice");
  if (machine.barriers.size() >= static_cast<std::size_t>(Agents::maxBarriers))
    machine.fail(FindingKind::Launch, "more than 64 mbarriers in a block");
  Thread &thread = machine.current();
  BarrierState &barrier = machine.barriers[offset];
  barrier.index = static_cast<int>(machine.barriers.size()) - 1;
  barrier.count = barrier.pending = count;
  barrier.offset = offset;
  barrier.initializer = thread.view.x;
  std::uint64_t word = barrierMagic | static_cast<std::uint64_t>(barrier.index);
  std::memcpy(pointer, &word, 8);
  if (machine.schedule.checkAccesses) {
    barrier.arriving.reset(machine.agents.count());
    barrier.completed.reset(machine.agents.count());
    machine.sharedAccess(offset, 8, true, thread.view.x, thread.epoch, thread.clock, false, thread.place);
  }
}

void mbarrierArrive(void *pointer, int arrivals, int expectedBytes) {
  ENTER(arrivals == 0 ? "mbarrier_expect" : expectedBytes ? "mbarrier_arrive_expect" : "mbarrier_arrive");
  BarrierState &barrier = machine.barrierAt(pointer);
  Thread &thread = machine.current();
  if (expectedBytes < 0 || expectedBytes >= 1 << 20)
    machine.fail(FindingKind::Protocol,
                 std::to_string(expectedBytes) + " bytes expected; an mbarrier counts up to 2^20 - 1");
  if (arrivals && barrier.pending <= 0)
    machine.fail(FindingKind::Protocol, "more arrivals than the mbarrier's " + std::to_string(barrier.count));
  barrier.transactions += expectedBytes;
  barrier.pending -= arrivals;
  if (machine.schedule.checkAccesses) {
    barrier.arriving.join(thread.clock);
    machine.bump(thread);
  }
  machine.completePhases(barrier);
}

void mbarrierWait(void *pointer, unsigned parity) {
  ENTER("mbarrier_wait");
  BarrierState &barrier = machine.barrierAt(pointer);
  Thread &thread = machine.current();
  if (parity > 1)
    machine.fail(FindingKind::Protocol, "parity " + std::to_string(parity) + "; it is 0 or 1");
  if (thread.view.x % 32 == machine.laggingLane())
    machine.yield();
  auto known = thread.passedPhase.find(&barrier);
  long phase = known != thread.passedPhase.end() ? known->second + 1 : parity == 0 ? 0 : -1;
  if ((static_cast<unsigned long>(phase) & 1u) != parity)
    machine.fail(FindingKind::Protocol, "wait with parity " + std::to_string(parity) + " after phase " +
                                            std::to_string(phase - 1) +
                                            "; a waiter passes consecutive phases, so parities alternate");
  while (!machine.passes(barrier, parity)) {
    thread.barrier = &barrier;
    thread.parity = parity;
    machine.sleep(Wait::Barrier);
  }
  if (barrier.phase != phase + 1)
    machine.fail(FindingKind::Protocol, "waits for phase " + std::to_string(phase) + " while " +
                                            std::to_string(barrier.phase) +
                                            " phases are complete; a waiter may be one phase behind, no more");
  thread.passedPhase[&barrier] = phase;
  if (machine.schedule.checkAccesses)
    thread.clock.join(barrier.completed, barrier.learnt);
}

// --- TMA ----------------------------------------------------------------------------------------------------------

void startFlight(Machine &machine, Transfer transfer, void *barrierPointer, int bytes) {
  BarrierState &barrier = machine.barrierAt(barrierPointer);
  Thread &thread = machine.current();
  if (!barrier.initFenced)
    machine.fail(FindingKind::Protocol, std::string("`") + thread.primitive +
                                            "` signals an mbarrier without fence_mbarrier_init after its init");
  std::uint32_t epoch = machine.newTick();
  if (machine.schedule.checkAccesses)
    for (const Transfer::Run &run : transfer.runs) {
      machine.sharedAccess(static_cast<std::size_t>(run.shared - machine.arena), static_cast<std::size_t>(run.bytes),
                           true, machine.agents.barrier(barrier.index), epoch, thread.clock, true, thread.place);
      if (run.global)
        machine.globalAccess(run.global, static_cast<std::size_t>(run.bytes), GlobalShadow::Use::CopyFrom,
                             thread.place);
    }
  Flight flight{std::move(transfer), &barrier, bytes, epoch};
  if (machine.runsEarly())
    machine.land(flight);
  else
    machine.flights.push_back(std::move(flight));
}

Transfer boxTransfer(Machine &machine, const void *shared, const void *mapPointer, int rank, const int *coordinates) {
  DecodedMap map;
  std::string problem = decodeTensorMap(mapPointer, map);
  if (problem.empty() && map.rank != rank)
    problem = "a map of " + std::to_string(map.rank) + " dimensions in a " + std::to_string(rank) + "-D copy";
  if (!problem.empty())
    machine.fail(FindingKind::Protocol, problem);
  std::size_t alignment = map.swizzle ? static_cast<std::size_t>(map.swizzle) * 8 : 128;
  std::size_t bytes = map.boxBytes();
  std::size_t offset = machine.sharedOffset(shared, bytes, alignment);
  Transfer transfer;
  for (const BoxPiece &piece : boxPieces(map, coordinates, offset)) {
    char *global = piece.inside ? map.address + piece.globalOffset : nullptr;
    if (global)
      machine.requireGlobal(global, static_cast<std::size_t>(piece.bytes), 1);
    transfer.runs.push_back({machine.arena + piece.sharedOffset, global, piece.bytes});
  }
  return transfer;
}

void tmaLoad(void *shared, const void *map, void *barrier, int rank, const int *coordinates) {
  ENTER("tma_load");
  Transfer transfer = boxTransfer(machine, shared, map, rank, coordinates);
  int bytes = 0;
  for (const Transfer::Run &run : transfer.runs)
    bytes += run.bytes;
  startFlight(machine, std::move(transfer), barrier, bytes);
}

void bulkLoad(void *shared, const void *global, int bytes, void *barrier) {
  ENTER("bulk_load");
  if (bytes <= 0 || bytes % 16)
    machine.fail(FindingKind::Misaligned,
                 "a bulk copy of " + std::to_string(bytes) + " bytes; the size is a positive multiple of 16");
  machine.sharedOffset(shared, static_cast<std::size_t>(bytes), 16);
  machine.requireGlobal(global, static_cast<std::size_t>(bytes), 16);
  Transfer transfer;
  transfer.runs.push_back({static_cast<char *>(shared), const_cast<char *>(static_cast<const char *>(global)), bytes});
  startFlight(machine, std::move(transfer), barrier, bytes);
}

void tmaStore(const void *map, const void *shared, int rank, const int *coordinates) {
  ENTER("tma_store");
  Transfer transfer = boxTransfer(machine, shared, map, rank, coordinates);
  Thread &thread = machine.current();
  if (machine.schedule.checkAccesses)
    for (const Transfer::Run &run : transfer.runs) {
      machine.sharedAccess(static_cast<std::size_t>(run.shared - machine.arena), static_cast<std::size_t>(run.bytes),
                           false, machine.agents.copies(thread.view.x), thread.openStores.epoch, thread.clock, true,
                           thread.place);
      if (run.global)
        machine.globalAccess(run.global, static_cast<std::size_t>(run.bytes), GlobalShadow::Use::CopyTo, thread.place);
    }
  thread.openStores.stores.push_back({std::move(transfer), {}, false, false, thread.place});
  ++machine.unfinishedStores;
  if (machine.runsEarly())
    thread.openStores.stores.back().write();
}

void tmaStoreCommit() {
  ENTER("tma_store_commit");
  Thread &thread = machine.current();
  thread.storeGroups.push_back(std::move(thread.openStores));
  thread.openStores = {};
  thread.openStores.epoch = machine.newTick();
}

void tmaStoreWait(int pending, bool readOnly) {
  ENTER(readOnly ? "tma_store_wait_read" : "tma_store_wait");
  if (readOnly)
    machine.readStores(machine.current(), static_cast<std::size_t>(pending));
  else
    machine.finishStores(machine.current(), static_cast<std::size_t>(pending));
}

// --- Registers ----------------------------------------------------------------------------------------------------

void setRegisters(int registers, bool acquire, int line) {
  ENTER(acquire ? "registers_acquire" : "registers_release");
  struct Operand {
    int registers;
    bool acquire;
  } operand{registers, acquire};
  machine.collective(line, &operand, [&machine](Thread *first, void **operands) {
    const Operand &wanted = *static_cast<Operand *>(operands[0]);
    Warp &warp = machine.warpOf(*first);
    if (wanted.registers % 8 || wanted.registers < 24 || wanted.registers > 256)
      machine.fail(FindingKind::Protocol,
                   std::to_string(wanted.registers) + " registers; setmaxnreg takes multiples of 8 from 24 to 256");
    if (wanted.acquire ? wanted.registers < warp.registers : wanted.registers > warp.registers)
      machine.fail(FindingKind::Protocol,
                   std::string(wanted.acquire ? "acquire" : "release") + " from " + std::to_string(warp.registers) +
                       " to " + std::to_string(wanted.registers) + " registers; acquire raises, release lowers");
    warp.wantedRegisters = wanted.registers;
    if (!wanted.acquire) {
      machine.freeRegisters += warp.registers - wanted.registers;
      warp.registers = wanted.registers;
    } else
      for (int lane = 0; lane < 32; ++lane)
        first[lane].wait = Wait::Registers;
    machine.grantRegisters();
  });
}

} // namespace

BarrierState &Machine::barrierAt(const void *pointer) {
  std::size_t offset = sharedOffset(pointer, 8, 8);
  auto found = barriers.find(offset);
  std::uint64_t word;
  std::memcpy(&word, pointer, 8);
  if (found == barriers.end())
    fail(FindingKind::Protocol, std::string("`") + running->primitive + "` on an mbarrier that was never initialised");
  if (word != (barrierMagic | static_cast<std::uint64_t>(found->second.index)))
    fail(FindingKind::Protocol, std::string("`") + running->primitive + "` on an mbarrier that was overwritten");
  // Its initialisation must be ordered before each use.
  BarrierState &barrier = found->second;
  if (schedule.checkAccesses)
    sharedAccess(offset, 8, false, running->view.x, running->epoch, running->clock, false, running->place);
  return barrier;
}

void Machine::completePhases(BarrierState &barrier) {
  if (barrier.pending > 0 || barrier.transactions != 0)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  if (schedule.checkAccesses) {
    barrier.completed = barrier.arriving;
    barrier.learnt = {};
  }
  for (Thread &thread : threads)
    if (thread.wait == Wait::Barrier && thread.barrier == &barrier && passes(barrier, thread.parity))
      thread.wait = Wait::None;
}

void Machine::land(Flight &flight) {
  for (const Transfer::Run &run : flight.transfer.runs)
    if (run.global)
      std::memcpy(run.shared, run.global, static_cast<std::size_t>(run.bytes));
    else
      std::memset(run.shared, 0, static_cast<std::size_t>(run.bytes));
  BarrierState &barrier = *flight.barrier;
  if (schedule.checkAccesses)
    barrier.arriving.raise(agents.barrier(barrier.index), flight.epoch);
  barrier.transactions -= flight.bytes;
  completePhases(barrier);
}

void Store::read() {
  if (wasRead)
    return;
  for (const Transfer::Run &run : transfer.runs)
    bytes.insert(bytes.end(), run.shared, run.shared + run.bytes);
  wasRead = true;
}

void Store::write() {
  if (wasWritten)
    return;
  read();
  const char *from = bytes.data();
  for (const Transfer::Run &run : transfer.runs) {
    if (run.global)
      std::memcpy(run.global, from, static_cast<std::size_t>(run.bytes));
    from += run.bytes;
  }
  wasWritten = true;
}

bool Store::covers(const char *pointer, std::size_t size) const {
  return std::any_of(transfer.runs.begin(), transfer.runs.end(), [&](const Transfer::Run &run) {
    return run.global && pointer < run.global + run.bytes && run.global < pointer + size;
  });
}

void Machine::readStores(Thread &thread, std::size_t pending) {
  for (std::size_t i = 0; i + pending < thread.storeGroups.size(); ++i) {
    StoreGroup &group = thread.storeGroups[i];
    for (Store &store : group.stores)
      store.read();
    group.sourceFree = true;
    if (schedule.checkAccesses)
      thread.clock.raise(agents.copies(thread.view.x), group.epoch);
  }
}

void Machine::finishStores(Thread &thread, std::size_t pending) {
  readStores(thread, pending);
  while (thread.storeGroups.size() > pending) {
    for (Store &store : thread.storeGroups.front().stores) {
      store.write();
      --unfinishedStores;
    }
    thread.storeGroups.pop_front();
  }
}

const Store *Machine::unfinishedStoreOver(const char *pointer, std::size_t bytes) const {
  for (const Thread &thread : threads) {
    for (const StoreGroup &group : thread.storeGroups)
      for (const Store &store : group.stores)
        if (store.covers(pointer, bytes))
          return &store;
    for (const Store &store : thread.openStores.stores)
      if (store.covers(pointer, bytes))
        return &store;
  }
  return nullptr;
}

void Machine::grantRegisters() {
  for (Warp &warp : warps) {
    std::size_t index = static_cast<std::size_t>(&warp - warps.data());
    Thread *first = &threads[index * 32];
    if (first->wait != Wait::Registers || warp.wantedRegisters - warp.registers > freeRegisters)
      continue;
    freeRegisters -= warp.wantedRegisters - warp.registers;
    warp.registers = warp.wantedRegisters;
    for (int lane = 0; lane < 32; ++lane)
      first[lane].wait = Wait::None;
  }
}

void installHopperPrimitives(Table &table) {
  table.fenceProxyAsync = fenceProxyAsync;
  table.fenceMbarrierInit = fenceMbarrierInit;
  table.mbarrierInit = mbarrierInit;
  table.mbarrierArrive = mbarrierArrive;
  table.mbarrierWait = mbarrierWait;
  table.tmaLoad = tmaLoad;
  table.tmaStore = tmaStore;
  table.tmaStoreCommit = tmaStoreCommit;
  table.tmaStoreWait = tmaStoreWait;
  table.bulkLoad = bulkLoad;
  table.setRegisters = setRegisters;
}

} // namespace tcc::emulator
