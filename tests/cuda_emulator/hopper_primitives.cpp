// mbarrier, TMA, bulk copies, proxy fences, setmaxnreg, wgmma.
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
// What accumulators hold while a product is in flight: a signalling NaN, which any arithmetic changes.
constexpr std::uint32_t flightPattern = 0x7fa5aa5au;

void fenceProxyAsync() {
  ENTER("fence_proxy_async");
  if (!machine.schedule.checkAccesses)
    return;
  Thread &thread = machine.current();
  int self = thread.view.x, copies = machine.agents.copies(self);
  thread.clock.proxy[self] = thread.epoch;
  thread.clock.proxy[copies] = thread.clock.known[copies];
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
    thread.clock.join(barrier.completed);
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
        machine.globalAccess(run.global, static_cast<std::size_t>(run.bytes), false, thread.place);
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

void storeTransfer(const Transfer &transfer) {
  for (const Transfer::Run &run : transfer.runs)
    if (run.global)
      std::memcpy(run.global, run.shared, static_cast<std::size_t>(run.bytes));
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
        machine.globalAccess(run.global, static_cast<std::size_t>(run.bytes), true, thread.place);
    }
  ++thread.openStores.issued;
  if (machine.runsEarly())
    storeTransfer(transfer);
  else
    thread.openStores.transfers.push_back(std::move(transfer));
}

void tmaStoreCommit() {
  ENTER("tma_store_commit");
  Thread &thread = machine.current();
  thread.storeGroups.push_back(std::move(thread.openStores));
  thread.openStores = {};
  thread.openStores.epoch = machine.newTick();
}

void tmaStoreWait(int pending, bool) {
  ENTER("tma_store_wait");
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

// --- wgmma --------------------------------------------------------------------------------------------------------

unsigned long long sharedAddress(const void *pointer) {
  ENTER("wgmma_descriptor");
  return machine.sharedOffset(pointer, 16, 16);
}

/// Arena offsets of the elements (row, k) of a 16-bit operand of `rows` × 16, row-major by (row, k).
std::vector<unsigned long> operandAddresses(Machine &machine, unsigned long long descriptor, int rows,
                                            bool transposed) {
  unsigned long start = static_cast<unsigned long>(descriptor & 0x3fff) << 4;
  unsigned long leading = static_cast<unsigned long>(descriptor >> 16 & 0x3fff) << 4;
  unsigned long stride = static_cast<unsigned long>(descriptor >> 32 & 0x3fff) << 4;
  unsigned baseOffset = descriptor >> 49 & 7, swizzle = static_cast<unsigned>(descriptor >> 62);
  if (descriptor & 0x3ff1c000c000c000ull)
    machine.fail(FindingKind::Protocol, "a matrix descriptor with reserved bits set");
  // Bytes of a swizzled row and the address bits that are exchanged.
  unsigned long width = swizzle == 1 ? 128 : swizzle == 2 ? 64 : swizzle == 3 ? 32 : 16;
  unsigned long mask = width / 16 - 1;
  if (baseOffset || (start >> 7 & mask))
    machine.fail(FindingKind::Misaligned, "a matrix descriptor's tile starts at shared offset " +
                                              std::to_string(start) + "; a tile of " + std::to_string(width) +
                                              "-byte swizzle starts at a multiple of " + std::to_string(width * 8));
  std::vector<unsigned long> addresses(static_cast<std::size_t>(rows) * 16);
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < 16; ++k) {
      unsigned long r = static_cast<unsigned long>(row), c = static_cast<unsigned long>(k), address;
      if (!transposed && swizzle)
        address = start + r / 8 * stride + r % 8 * width + c * 2;
      else if (!transposed)
        address = start + r / 8 * stride + r % 8 * 16 + c / 8 * leading + c % 8 * 2;
      else if (swizzle)
        address = start + r / (width / 2) * leading + r % (width / 2) * 2 + c / 8 * stride + c % 8 * width;
      else
        address = start + r / 8 * stride + r % 8 * 2 + c / 8 * leading + c % 8 * 16;
      addresses[r * 16 + c] = address ^ ((address >> 7 & mask) << 4);
    }
  for (unsigned long address : addresses)
    machine.sharedOffset(machine.arena + address, 2, 2);
  return addresses;
}

std::uint16_t elementAt(const Machine &machine, unsigned long offset) {
  std::uint16_t bits;
  std::memcpy(&bits, machine.arena + offset, 2);
  return bits;
}

void compute(Machine &machine, Warpgroup &group, Product &product) {
  Accumulator &accumulator = group.accumulators[static_cast<std::size_t>(product.accumulator)];
  int columns = accumulator.columns;
  const float *half = product.half ? halfValues() : nullptr;
  std::vector<float> a(64 * 16), b(static_cast<std::size_t>(columns) * 16);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = elementValue(product.fromRegisters ? product.a[i] : elementAt(machine, product.addressA[i]), half);
  for (std::size_t n = 0; n < static_cast<std::size_t>(columns); ++n)
    for (std::size_t k = 0; k < 16; ++k)
      b[k * static_cast<std::size_t>(columns) + n] =
          elementValue(elementAt(machine, product.addressB[n * 16 + k]), half);
  if (!product.accumulate)
    std::fill(accumulator.value.begin(), accumulator.value.end(), 0.0f);
  for (std::size_t row = 0; row < 64; ++row)
    for (std::size_t k = 0; k < 16; ++k) {
      float scale = a[row * 16 + k];
      float *d = &accumulator.value[row * static_cast<std::size_t>(columns)];
      const float *from = &b[k * static_cast<std::size_t>(columns)];
      for (int column = 0; column < columns; ++column)
        d[column] += scale * from[column];
    }
  product.done = true;
}

/// Row and column of accumulator register i of thread x of a warpgroup.
std::size_t accumulatorIndex(int x, int i, int columns) {
  int warp = x / 32, g = x % 32 / 4, t = x % 4;
  int row = 16 * warp + g + 8 * ((i >> 1) & 1), column = 8 * (i >> 2) + 2 * t + (i & 1);
  return static_cast<std::size_t>(row * columns + column);
}

void issue(Machine &machine, Thread *first, void **operands) {
  Warpgroup &group = machine.warpgroupOf(*first);
  const WgmmaCall &call = *static_cast<WgmmaCall *>(operands[0]);
  for (int x = 1; x < 128; ++x) {
    const WgmmaCall &other = *static_cast<WgmmaCall *>(operands[x]);
    if (other.descriptorA != call.descriptorA || other.descriptorB != call.descriptorB ||
        other.accumulate != call.accumulate)
      machine.fail(FindingKind::Divergence, "threads of a warpgroup give wgmma different descriptors or flags");
  }
  int columns = call.columns;
  auto registersOf = [&](int x) { return static_cast<WgmmaCall *>(operands[x])->d; };
  std::size_t index = 0;
  while (index < group.accumulators.size() &&
         (group.accumulators[index].registers[0] != call.d || group.accumulators[index].columns != columns))
    ++index;
  if (index == group.accumulators.size()) {
    group.accumulators.emplace_back();
    group.accumulators[index].columns = columns;
    group.accumulators[index].value.resize(static_cast<std::size_t>(64 * columns));
  }
  Accumulator &accumulator = group.accumulators[index];
  if (accumulator.inFlight == 0) {
    if (group.fenced < 0 || group.fenced <= accumulator.retired)
      machine.fail(FindingKind::Protocol, "wgmma without wgmma_fence since its accumulators were last free; ordinary "
                                          "use of registers and wgmma are ordered by a fence");
    for (int x = 0; x < 128; ++x) {
      accumulator.registers[static_cast<std::size_t>(x)] = registersOf(x);
      for (int i = 0; i < columns / 2; ++i) {
        accumulator.value[accumulatorIndex(x, i, columns)] = registersOf(x)[i];
        std::memcpy(&registersOf(x)[i], &flightPattern, 4);
      }
    }
  }
  Product product;
  product.accumulator = static_cast<int>(index);
  product.half = call.half;
  product.accumulate = call.accumulate;
  product.fromRegisters = call.a != nullptr;
  product.addressB = operandAddresses(machine, call.descriptorB, columns, call.transposedB);
  if (product.fromRegisters) {
    if (group.fenced < group.waited)
      machine.fail(FindingKind::Protocol,
                   "wgmma takes A from registers without wgmma_fence since the latest wgmma_wait");
    product.a.resize(64 * 16);
    for (int x = 0; x < 128; ++x) {
      const unsigned *a = static_cast<WgmmaCall *>(operands[x])->a;
      auto &kept = product.registersA[static_cast<std::size_t>(x)];
      kept = {a, {a[0], a[1], a[2], a[3]}};
      int warp = x / 32, g = x % 32 / 4, t = x % 4;
      for (int i = 0; i < 4; ++i)
        for (int h = 0; h < 2; ++h)
          product.a[static_cast<std::size_t>((16 * warp + g + 8 * (i & 1)) * 16 + 2 * t + h + 8 * (i >> 1))] =
              static_cast<std::uint16_t>(a[i] >> 16 * h);
    }
  } else
    product.addressA = operandAddresses(machine, call.descriptorA, 64, call.transposedA);
  if (machine.schedule.checkAccesses) {
    // What all four warps know to have happened.
    Clock common = first[0].clock;
    for (int warp = 1; warp < 4; ++warp)
      common.meet(first[32 * warp].clock);
    int agent = machine.agents.warpgroup(first->view.warp / 4);
    for (const auto *addresses : {&product.addressA, &product.addressB})
      for (unsigned long address : *addresses)
        machine.sharedAccess(address, 2, false, agent, group.open.epoch, common, true, first->place);
  }
  ++accumulator.inFlight;
  if (machine.runsEarly())
    compute(machine, group, product);
  group.open.products.push_back(std::move(product));
}

void wgmma(const WgmmaCall *call, int line) {
  ENTER("wgmma");
  machine.warpgroupCollective(line, const_cast<WgmmaCall *>(call), [&machine](Thread *first, void **operands) {
    Warpgroup &group = machine.warpgroupOf(*first);
    if (!group.open.epoch)
      group.open.epoch = machine.newTick();
    // An early product would overtake late ones on the same accumulators.
    bool pending = false;
    for (const ProductGroup &closed : group.groups)
      for (const Product &product : closed.products)
        pending |= !product.done;
    for (const Product &product : group.open.products)
      pending |= !product.done;
    Async kept = machine.schedule.async;
    if (pending)
      machine.schedule.async = Async::Late;
    issue(machine, first, operands);
    machine.schedule.async = kept;
  });
}

void wgmmaFence(int line) {
  ENTER("wgmma_fence");
  machine.warpgroupCollective(line, nullptr, [&machine](Thread *first, void **) {
    Warpgroup &group = machine.warpgroupOf(*first);
    group.fenced = ++group.event;
  });
}

void wgmmaCommit(int line) {
  ENTER("wgmma_commit");
  machine.warpgroupCollective(line, nullptr, [&machine](Thread *first, void **) {
    Warpgroup &group = machine.warpgroupOf(*first);
    if (!group.open.epoch)
      group.open.epoch = machine.newTick();
    group.groups.push_back(std::move(group.open));
    group.open = {};
    group.open.epoch = machine.newTick();
  });
}

void wgmmaWait(int pending, int line) {
  ENTER("wgmma_wait");
  struct Operand {
    int pending;
  } operand{pending};
  machine.warpgroupCollective(line, &operand, [&machine](Thread *first, void **operands) {
    Warpgroup &group = machine.warpgroupOf(*first);
    std::size_t pending = static_cast<std::size_t>(static_cast<Operand *>(operands[0])->pending);
    std::uint32_t finished = 0;
    group.waited = ++group.event;
    while (group.groups.size() > pending) {
      ProductGroup &oldest = group.groups.front();
      for (Product &product : oldest.products) {
        if (product.fromRegisters)
          for (const auto &[registers, values] : product.registersA)
            if (std::memcmp(registers, values.data(), 16) != 0)
              machine.fail(FindingKind::Protocol,
                           "A registers of a wgmma changed before wgmma_wait; they belong to it until then");
        if (!product.done)
          compute(machine, group, product);
        Accumulator &accumulator = group.accumulators[static_cast<std::size_t>(product.accumulator)];
        if (--accumulator.inFlight > 0)
          continue;
        accumulator.retired = group.event;
        for (int x = 0; x < 128; ++x)
          for (int i = 0; i < accumulator.columns / 2; ++i) {
            float *d = &accumulator.registers[static_cast<std::size_t>(x)][i];
            if (std::memcmp(d, &flightPattern, 4) != 0)
              machine.fail(FindingKind::Protocol,
                           "an accumulator of a wgmma changed before wgmma_wait; it belongs to it until then");
            *d = accumulator.value[accumulatorIndex(x, i, accumulator.columns)];
          }
      }
      finished = oldest.epoch;
      group.groups.pop_front();
    }
    if (machine.schedule.checkAccesses && finished)
      for (int x = 0; x < 128; ++x)
        first[x].clock.known[machine.agents.warpgroup(first->view.warp / 4)] = finished;
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
  if (schedule.checkAccesses)
    barrier.completed = barrier.arriving;
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
  if (schedule.checkAccesses) {
    std::uint32_t &known = barrier.arriving.known[agents.barrier(barrier.index)];
    known = std::max(known, flight.epoch);
  }
  barrier.transactions -= flight.bytes;
  completePhases(barrier);
}

void Machine::finishStores(Thread &thread, std::size_t pending) {
  while (thread.storeGroups.size() > pending) {
    StoreGroup &group = thread.storeGroups.front();
    for (const Transfer &transfer : group.transfers)
      storeTransfer(transfer);
    if (schedule.checkAccesses) {
      std::uint32_t &known = thread.clock.known[agents.copies(thread.view.x)];
      known = std::max(known, group.epoch);
    }
    thread.storeGroups.pop_front();
  }
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
  table.sharedAddress = sharedAddress;
  table.wgmma = wgmma;
  table.wgmmaFence = wgmmaFence;
  table.wgmmaCommit = wgmmaCommit;
  table.wgmmaWait = wgmmaWait;
}

} // namespace tcc::emulator
