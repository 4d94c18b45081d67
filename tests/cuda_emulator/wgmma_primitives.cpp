// wgmma: products of a warpgroup, their descriptors, fences, groups and waits.
#include "tests/cuda_emulator/machine.h"

#include <algorithm>
#include <cstring>

#define ENTER(primitive)                                                                                               \
  Machine &machine = Machine::get();                                                                                   \
  machine.enter(primitive, __builtin_return_address(0))

namespace tcc::emulator {
namespace {

// What accumulators hold while a product is in flight: a signalling NaN, which any arithmetic changes.
constexpr std::uint32_t flightPattern = 0x7fa5aa5au;

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
    // Those of an earlier product that this one goes on from.
    std::size_t each = static_cast<std::size_t>(columns / 2);
    if (call.accumulate && !accumulator.fenced.empty())
      for (std::size_t x = 0; x < 128; ++x)
        if (accumulator.registers[x] == registersOf(static_cast<int>(x)) &&
            std::memcmp(registersOf(static_cast<int>(x)), &accumulator.fenced[x * each], 4 * each) != 0)
          machine.fail(FindingKind::Protocol,
                       "an accumulator was changed between wgmma_fence and wgmma; the fence comes "
                       "after the change");
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
#ifndef TCC_EMULATOR_ASAN // it knows which of them are out of scope by now
    for (Accumulator &accumulator : group.accumulators)
      if (accumulator.inFlight == 0) {
        accumulator.fenced.clear();
        for (const float *registers : accumulator.registers)
          accumulator.fenced.insert(accumulator.fenced.end(), registers, registers + accumulator.columns / 2);
      }
#endif
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
        first[x].clock.raise(machine.agents.warpgroup(first->view.warp / 4), finished);
  });
}

} // namespace

void installWgmmaPrimitives(Table &table) {
  table.sharedAddress = sharedAddress;
  table.wgmma = wgmma;
  table.wgmmaFence = wgmmaFence;
  table.wgmmaCommit = wgmmaCommit;
  table.wgmmaWait = wgmmaWait;
}

} // namespace tcc::emulator
