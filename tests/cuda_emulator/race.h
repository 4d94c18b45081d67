// Who may have touched shared memory before whom: vector clocks of threads and asynchronous agents, and for each two
// bytes the last write and the reads since. In: accesses and synchronisations in execution order; out: the conflict
// that an access makes, if any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tcc::emulator {

/// Agents: thread t is t; its cp.async copies and TMA stores are threads + t; then mbarriers (TMA loads), then wgmma.
struct Agents {
  int threads = 0;
  static constexpr int maxBarriers = 64, maxWarpgroups = 16;
  int copies(int thread) const { return threads + thread; }
  int barrier(int index) const { return 2 * threads + index; }
  int warpgroup(int index) const { return 2 * threads + maxBarriers + index; }
  int count() const { return 2 * threads + maxBarriers + maxWarpgroups; }
  bool asynchronous(int agent) const { return agent >= 2 * threads; }
};

/// Up to which epoch of each agent a thread or sync object knows; `proxy` counts ordinary writes that were fenced for
/// the asynchronous proxy. Threads that have met share what they learnt, so that a meeting costs one vector and not one
/// a thread; what a clock knows beyond that are a few entries of its own. Epochs only grow.
class Clock {
public:
  bool empty() const { return !base; }
  /// Knows nothing.
  void reset(int agents);
  std::uint32_t known(int agent) const { return value(agent, base->known, &Entry::known); }
  std::uint32_t proxy(int agent) const { return value(agent, base->proxy, &Entry::proxy); }
  /// No epoch becomes smaller.
  void raise(int agent, std::uint32_t known, std::uint32_t proxy = 0);
  void join(const Clock &other);
  /// Keeps the smaller entries.
  void meet(const Clock &other);

  /// What a join gave, for the next clock that shares what this one shared.
  struct Memory;
  void join(const Clock &other, Memory &memory);
  /// Makes all of them know what they know together.
  static void joinAll(const std::vector<Clock *> &clocks);

private:
  struct Shared {
    std::vector<std::uint32_t> known, proxy;
  };
  struct Entry {
    int agent;
    std::uint32_t known, proxy;
  };
  std::uint32_t value(int agent, const std::vector<std::uint32_t> &shared, std::uint32_t Entry::*member) const {
    std::uint32_t most = shared[static_cast<std::size_t>(agent)];
    for (int i = 0; i < ownCount; ++i)
      if (own[i].agent == agent && own[i].*member > most)
        most = own[i].*member;
    return most;
  }
  /// Its own vector to write to, own entries put in if `flat`.
  Shared &unshared(bool flat);
  static void joinShared(Shared &into, const Shared &from);

  std::shared_ptr<Shared> base;
  std::shared_ptr<Shared> joined; // what it has joined last, so that the next clock that shares it costs nothing
  static constexpr int ownRoom = 4;
  Entry own[ownRoom];
  int ownCount = 0;
};
struct Clock::Memory {
  std::shared_ptr<Shared> from, to;
};

enum class ConflictKind { None, WriteWrite, WriteRead, ReadWrite, Uninitialized, Unfenced };
struct Conflict {
  ConflictKind kind = ConflictKind::None;
  int agent = -1;
  void *programCounter = nullptr; // of the earlier access
};

/// The shadow of one block's shared memory.
class Shadow {
public:
  void configure(std::size_t bytes) { cells.assign(bytes / cellBytes + 1, Cell{}); }
  /// Forgets everything: all epochs up to `tick` are void.
  void startBlock(std::uint32_t tick);
  /// Records an access by `agent` at `epoch`, whose issuer knows `clock`. `asynchronous`: through the async proxy.
  Conflict read(const Agents &agents, std::size_t offset, std::size_t bytes, int agent, std::uint32_t epoch,
                const Clock &clock, bool asynchronous, void *programCounter);
  Conflict write(const Agents &agents, std::size_t offset, std::size_t bytes, int agent, std::uint32_t epoch,
                 const Clock &clock, bool asynchronous, void *programCounter);

private:
  static constexpr std::size_t cellBytes = 2;
  struct Cell {
    std::uint32_t writeEpoch = 0;
    std::int32_t writeAgent = 0;
    void *writer = nullptr;
    std::int32_t readers = -1; // index into `pool`
    std::uint32_t readersBlock = 0;
  };
  /// Agents 32 * group .. + 31 that read at `epoch`.
  struct Readers {
    std::uint32_t epoch, mask;
    std::int32_t group, next;
    void *programCounter;
  };
  void addReader(Cell &cell, int agent, std::uint32_t epoch, void *programCounter);
  void dropReaders(Cell &cell);

  std::vector<Cell> cells;
  std::vector<Readers> pool;
  std::int32_t freeList = -1;
  std::uint32_t baseTick = 0, blockNumber = 0;
};

} // namespace tcc::emulator
