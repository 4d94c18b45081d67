// Barriers, shuffles, votes, math, cp.async, ldmatrix and mma.sync.
#include "tests/cuda_emulator/machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#define ENTER(primitive)                                                                                               \
  Machine &machine = Machine::get();                                                                                   \
  machine.enter(primitive, __builtin_return_address(0))

namespace tcc::emulator {
namespace {

float fromBits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
std::uint32_t toBits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

} // namespace

static float halfValue(std::uint32_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                    : exponent     ? std::ldexp(1024.0f + static_cast<float>(mantissa), exponent - 25)
                                   : std::ldexp(static_cast<float>(mantissa), -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

const float *halfValues() {
  static const std::vector<float> values = [] {
    std::vector<float> all(65536);
    for (std::uint32_t i = 0; i < 65536; ++i)
      all[i] = halfValue(i);
    return all;
  }();
  return values.data();
}

namespace {

void *sharedArray(int id, unsigned long bytes, unsigned long alignment) {
  ENTER("SHARED");
  return machine.sharedArray(id, bytes, alignment);
}

void *dynamicShared(unsigned long alignment) {
  ENTER("DYNAMIC_SHARED");
  return machine.dynamicShared(alignment);
}

// --- Barriers -----------------------------------------------------------------------------------------------------

void blockBarrier(int line) {
  ENTER("block_barrier");
  Thread &thread = machine.current();
  thread.line = line;
  for (Thread &other : machine.threads) {
    if (other.wait == Wait::Block && other.line != line)
      machine.fail(FindingKind::Divergence,
                   "thread " + std::to_string(thread.view.x) + " reaches another `block_barrier` than thread " +
                       std::to_string(other.view.x) + "; all threads of a block meet at the same one");
    if (other.wait == Wait::Done)
      machine.fail(FindingKind::Divergence, "`block_barrier` after thread " + std::to_string(other.view.x) +
                                                " has returned; all threads of a block take part");
    if (other.wait == Wait::Block)
      break; // the others agree with this one
  }
  if (++machine.blockArrived < machine.launchThreads) {
    machine.sleep(Wait::Block);
    return;
  }
  machine.blockArrived = 0;
  std::vector<int> all(machine.launchThreads);
  for (int i = 0; i < machine.launchThreads; ++i) {
    all[i] = i;
    machine.threads[i].wait = Wait::None;
  }
  machine.joinThreads(all);
  machine.yield(); // the scheduler chooses who goes on
}

void warpBarrier(int line) {
  ENTER("warp_barrier");
  machine.collective(line, nullptr, [&machine](Thread *first, void **) {
    std::vector<int> lanes(32);
    for (int lane = 0; lane < 32; ++lane)
      lanes[lane] = first[lane].view.x;
    machine.joinThreads(lanes);
  });
}

void namedBarrier(int id, int count, bool wait, int line) {
  ENTER(wait ? "named_barrier_sync" : "named_barrier_arrive");
  struct Operand {
    int id, count;
    bool wait;
  } operand{id, count, wait};
  machine.collective(line, &operand, [&machine](Thread *first, void **operands) {
    Operand &mine = *static_cast<Operand *>(operands[0]);
    for (int lane = 1; lane < 32; ++lane) {
      Operand &other = *static_cast<Operand *>(operands[lane]);
      if (other.id != mine.id || other.count != mine.count)
        machine.fail(FindingKind::Protocol, "lanes of a warp name different barriers or counts");
    }
    if (mine.id < 1 || mine.id > 15)
      machine.fail(FindingKind::Protocol,
                   "named barrier " + std::to_string(mine.id) + "; ids are 1 to 15 (0 is the block barrier)");
    if (mine.count % 32 || mine.count < 32 || mine.count > machine.launchThreads)
      machine.fail(FindingKind::Protocol, "named barrier of " + std::to_string(mine.count) +
                                              " threads; the count is a multiple of 32, at most the block's threads");
    NamedBarrier &barrier = machine.named[mine.id];
    int warp = first->view.warp;
    if (barrier.arrived && barrier.expected != mine.count)
      machine.fail(FindingKind::Protocol, "named barrier " + std::to_string(mine.id) + " with " +
                                              std::to_string(mine.count) + " threads, but others gave " +
                                              std::to_string(barrier.expected));
    if (std::count(barrier.warps.begin(), barrier.warps.end(), warp))
      machine.fail(FindingKind::Protocol, "warp " + std::to_string(warp) + " arrives twice at named barrier " +
                                              std::to_string(mine.id) + " before it completes");
    barrier.expected = mine.count;
    barrier.arrived += 32;
    barrier.warps.push_back(warp);
    bool checked = machine.schedule.checkAccesses;
    if (checked) {
      if (barrier.clock.empty())
        barrier.clock.reset(machine.agents.count());
      for (int lane = 0; lane < 32; ++lane) {
        barrier.clock.join(first[lane].clock);
        machine.bump(first[lane]);
      }
    }
    if (mine.wait) {
      barrier.waiting.push_back(warp);
      for (int lane = 0; lane < 32; ++lane)
        first[lane].wait = Wait::Named;
    }
    if (barrier.arrived < barrier.expected)
      return;
    Clock::Memory learnt;
    for (int waiter : barrier.waiting)
      for (int lane = 0; lane < 32; ++lane) {
        Thread &thread = machine.threads[waiter * 32 + lane];
        thread.wait = Wait::None;
        if (checked)
          thread.clock.join(barrier.clock, learnt);
      }
    barrier = NamedBarrier{};
  });
}

// --- Shuffles and votes -------------------------------------------------------------------------------------------

int warpIndex(int line) {
  ENTER("warp_index");
  machine.collective(line, nullptr, [](Thread *, void **) {});
  return machine.current().view.warp;
}

unsigned shuffle(unsigned value, Shuffle kind, int operand, int line) {
  ENTER(kind == Shuffle::Xor    ? "shuffle_xor"
        : kind == Shuffle::Down ? "shuffle_down"
        : kind == Shuffle::Up   ? "shuffle_up"
                                : "shuffle_from");
  struct Operand {
    unsigned value, result;
    Shuffle kind;
    int operand;
  } mine{value, 0, kind, operand};
  machine.collective(line, &mine, [](Thread *, void **operands) {
    for (int lane = 0; lane < 32; ++lane) {
      Operand &self = *static_cast<Operand *>(operands[lane]);
      int source = self.kind == Shuffle::Xor    ? lane ^ self.operand
                   : self.kind == Shuffle::Down ? lane + self.operand
                   : self.kind == Shuffle::Up   ? lane - self.operand
                                                : self.operand & 31;
      if (source < 0 || source > 31)
        source = lane;
      self.result = static_cast<Operand *>(operands[source])->value;
    }
  });
  return mine.result;
}

unsigned ballot(bool condition, int line) {
  ENTER("vote");
  struct Operand {
    bool condition;
    unsigned result;
  } mine{condition, 0};
  machine.collective(line, &mine, [](Thread *, void **operands) {
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane)
      bits |= static_cast<unsigned>(static_cast<Operand *>(operands[lane])->condition) << lane;
    for (int lane = 0; lane < 32; ++lane)
      static_cast<Operand *>(operands[lane])->result = bits;
  });
  return mine.result;
}

bool electOne(int line) {
  ENTER("elect_one");
  machine.collective(line, nullptr, [](Thread *, void **) {});
  // The same lane every time, but not the one that a text might count on.
  int leader = machine.schedule.order == Order::Forward   ? 0
               : machine.schedule.order == Order::Reverse ? 31
                                                          : static_cast<int>(machine.schedule.seed * 7 % 32);
  return machine.current().view.lane == leader;
}

void misaligned(const void *pointer, int bytes) {
  ENTER("load or store");
  char text[32];
  std::snprintf(text, sizeof text, "%p", pointer);
  machine.fail(FindingKind::Misaligned, "a load or store of " + std::to_string(bytes) + " bytes at " + text +
                                            "; the address must be a multiple of its size");
}

// --- Math ---------------------------------------------------------------------------------------------------------

float flush(float x) {
  return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x;
}

float fastMath(FastMath function, float x) {
  Machine &machine = Machine::get();
  float result;
  switch (function) {
  case FastMath::Exp2:
    result = std::exp2(flush(x));
    break;
  case FastMath::Log2:
    result = std::log2(flush(x));
    break;
  case FastMath::Tanh:
    result = std::tanh(x);
    break;
  case FastMath::Reciprocal:
    result = 1.0f / flush(x);
    break;
  default:
    result = 1.0f / std::sqrt(flush(x));
    break;
  }
  result = flush(result);
  int amplitude = machine.schedule.approximationNoise;
  // Exact results stay exact, as the hardware's do: powers of two, zero, infinity.
  if (amplitude && std::isfinite(result) && (toBits(result) & 0x7fffffu)) {
    std::uint32_t hash = (toBits(x) ^ static_cast<std::uint32_t>(function) * 0x9E3779B9u) * 0x85EBCA6Bu;
    hash ^= hash >> 15;
    int error = static_cast<int>(hash % (2u * static_cast<unsigned>(amplitude) + 1u)) - amplitude;
    result = fromBits(toBits(result) + static_cast<std::uint32_t>(error));
  }
  return result;
}

float accurateMath(AccurateMath function, float x, float y, float z) {
  switch (function) {
  case AccurateMath::Fma:
    return std::fma(x, y, z);
  case AccurateMath::Sqrt:
    return std::sqrt(x);
  case AccurateMath::Exp:
    return std::exp(x);
  case AccurateMath::Exp2:
    return std::exp2(x);
  case AccurateMath::Log:
    return std::log(x);
  case AccurateMath::Tanh:
    return std::tanh(x);
  case AccurateMath::Sin:
    return std::sin(x);
  case AccurateMath::Cos:
    return std::cos(x);
  case AccurateMath::Erf:
    return std::erf(x);
  case AccurateMath::Pow:
    return std::pow(x, y);
  case AccurateMath::Floor:
    return std::floor(x);
  case AccurateMath::Expm1:
    return std::expm1(x);
  case AccurateMath::Log1p:
    return std::log1p(x);
  case AccurateMath::Round:
    return std::nearbyint(x);
  case AccurateMath::Trunc:
    return std::trunc(x);
  case AccurateMath::Remainder:
    return std::fmod(x, y);
  default:
    return std::ceil(x);
  }
}

// --- cp.async -----------------------------------------------------------------------------------------------------

void perform(const Copy &copy) {
  if (copy.from)
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  else
    std::memset(copy.to, 0, static_cast<std::size_t>(copy.bytes));
}

void copyAsync(void *shared, const void *global, int bytes, bool valid) {
  ENTER(bytes == 16 ? "copy_async_16" : "copy_async_4");
  std::size_t size = static_cast<std::size_t>(bytes);
  std::size_t offset = machine.sharedOffset(shared, size, size);
  if (valid)
    machine.requireGlobal(global, size, size);
  Thread &thread = machine.current();
  if (machine.schedule.checkAccesses) {
    int agent = machine.agents.copies(thread.view.x);
    machine.sharedAccess(offset, size, true, agent, thread.openCopies.epoch, thread.clock, false, thread.place);
    if (valid)
      machine.globalAccess(global, size, GlobalShadow::Use::CopyFrom, thread.place);
  }
  if (machine.schedule.countAccesses) {
    machine.count(shared, size, thread.place);
    if (valid)
      machine.count(global, size, thread.place);
  }
  Copy copy{static_cast<char *>(shared), valid ? static_cast<const char *>(global) : nullptr, bytes};
  ++thread.openCopies.issued;
  if (machine.runsEarly())
    perform(copy);
  else
    thread.openCopies.copies.push_back(copy);
}

void copyAsyncCommit() {
  ENTER("copy_async_commit");
  Thread &thread = machine.current();
  thread.copyGroups.push_back(std::move(thread.openCopies));
  thread.openCopies = {};
  thread.openCopies.epoch = machine.newTick();
}

void copyAsyncWait(int pending) {
  ENTER("copy_async_wait");
  machine.finishCopies(machine.current(), static_cast<std::size_t>(pending));
}

// --- ldmatrix and mma.sync ----------------------------------------------------------------------------------------

void ldmatrix(unsigned *const *results, const void *row, int matrices, bool transposed, int line) {
  ENTER(matrices == 4 ? (transposed ? "ldmatrix_x4_trans" : "ldmatrix_x4")
                      : (transposed ? "ldmatrix_x2_trans" : "ldmatrix_x2"));
  struct Operand {
    unsigned *const *results;
    const void *row;
    int matrices;
    bool transposed;
  } mine{results, row, matrices, transposed};
  Thread &thread = machine.current();
  if (thread.view.lane < 8 * matrices) {
    std::size_t offset = machine.sharedOffset(row, 16, 16);
    if (machine.schedule.checkAccesses)
      machine.sharedAccess(offset, 16, false, thread.view.x, thread.epoch, thread.clock, false, thread.place);
  }
  machine.collective(line, &mine, [&machine](Thread *, void **operands) {
    const Operand &common = *static_cast<Operand *>(operands[0]);
    for (int m = 0; m < common.matrices; ++m) {
      std::uint16_t matrix[8][8];
      int banks[8] = {}, most = 0;
      for (int r = 0; r < 8; ++r) {
        const void *from = static_cast<Operand *>(operands[8 * m + r])->row;
        std::memcpy(matrix[r], from, 16);
        most = std::max(most, ++banks[reinterpret_cast<std::uintptr_t>(from) / 16 % 8]);
      }
      machine.bankConflicts += static_cast<std::uint64_t>(most - 1);
      for (int lane = 0; lane < 32; ++lane) {
        int g = lane / 4, t = lane % 4;
        unsigned low = common.transposed ? matrix[2 * t][g] : matrix[g][2 * t];
        unsigned high = common.transposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
        *static_cast<Operand *>(operands[lane])->results[m] = low | high << 16;
      }
    }
  });
}

void mma(float *d, const unsigned *a, unsigned b0, unsigned b1, bool half, int line) {
  ENTER("mma_m16n8k16");
  struct Operand {
    float *d;
    const unsigned *a;
    unsigned b[2];
    bool half;
  } mine{d, a, {b0, b1}, half};
  machine.collective(line, &mine, [](Thread *, void **operands) {
    const float *half = static_cast<Operand *>(operands[0])->half ? halfValues() : nullptr;
    float a[16][16], b[16][8], d[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const Operand &self = *static_cast<Operand *>(operands[lane]);
      int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; ++i)
        for (int h = 0; h < 2; ++h)
          a[g + 8 * (i & 1)][2 * t + h + 8 * (i >> 1)] =
              elementValue(static_cast<std::uint16_t>(self.a[i] >> 16 * h), half);
      for (int i = 0; i < 2; ++i)
        for (int h = 0; h < 2; ++h)
          b[2 * t + h + 8 * i][g] = elementValue(static_cast<std::uint16_t>(self.b[i] >> 16 * h), half);
      for (int i = 0; i < 4; ++i)
        d[g + 8 * (i >> 1)][2 * t + (i & 1)] = self.d[i];
    }
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        for (int column = 0; column < 8; ++column)
          d[row][column] += a[row][k] * b[k][column];
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; ++i)
        static_cast<Operand *>(operands[lane])->d[i] = d[g + 8 * (i >> 1)][2 * t + (i & 1)];
    }
  });
}

} // namespace

void Machine::finishCopies(Thread &thread, std::size_t pending) {
  while (thread.copyGroups.size() > pending) {
    CopyGroup &group = thread.copyGroups.front();
    for (const Copy &copy : group.copies)
      perform(copy);
    if (schedule.checkAccesses)
      thread.clock.raise(agents.copies(thread.view.x), group.epoch);
    thread.copyGroups.pop_front();
  }
}

void installWarpPrimitives(Table &table) {
  table.sharedArray = sharedArray;
  table.dynamicShared = dynamicShared;
  table.blockBarrier = blockBarrier;
  table.warpBarrier = warpBarrier;
  table.namedBarrier = namedBarrier;
  table.warpIndex = warpIndex;
  table.shuffle = shuffle;
  table.ballot = ballot;
  table.electOne = electOne;
  table.misaligned = misaligned;
  table.fastMath = fastMath;
  table.accurateMath = accurateMath;
  table.copyAsync = copyAsync;
  table.copyAsyncCommit = copyAsyncCommit;
  table.copyAsyncWait = copyAsyncWait;
  table.ldmatrix = ldmatrix;
  table.mma = mma;
}

} // namespace tcc::emulator
