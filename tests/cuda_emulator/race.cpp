#include "tests/cuda_emulator/race.h"

#include <algorithm>

namespace tcc::emulator {

namespace {

// Epochs stay below 2^31, and a signed comparison is one that every x86-64 has for four at a time.
template <class Choose>
void combine(std::vector<std::uint32_t> &into, const std::vector<std::uint32_t> &from, Choose choose) {
  std::uint32_t *to = into.data();
  const std::uint32_t *other = from.data();
  for (std::size_t i = 0, count = into.size(); i < count; ++i)
    to[i] = static_cast<std::uint32_t>(choose(static_cast<std::int32_t>(to[i]), static_cast<std::int32_t>(other[i])));
}
std::int32_t larger(std::int32_t a, std::int32_t b) {
  return a > b ? a : b;
}
std::int32_t smaller(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}

} // namespace

void Clock::reset(int agents) {
  base = std::make_shared<Shared>();
  base->known.assign(static_cast<std::size_t>(agents), 0);
  base->proxy.assign(static_cast<std::size_t>(agents), 0);
  joined = nullptr;
  ownCount = 0;
}

Clock::Shared &Clock::unshared(bool flat) {
  if (base.use_count() > 1)
    base = std::make_shared<Shared>(*base);
  for (; flat && ownCount; --ownCount) {
    const Entry &entry = own[ownCount - 1];
    std::size_t agent = static_cast<std::size_t>(entry.agent);
    base->known[agent] = std::max(base->known[agent], entry.known);
    base->proxy[agent] = std::max(base->proxy[agent], entry.proxy);
  }
  return *base;
}

void Clock::raise(int agent, std::uint32_t known, std::uint32_t proxy) {
  for (int i = 0; i < ownCount; ++i)
    if (own[i].agent == agent) {
      own[i].known = std::max(own[i].known, known);
      own[i].proxy = std::max(own[i].proxy, proxy);
      return;
    }
  std::size_t at = static_cast<std::size_t>(agent);
  if (base->known[at] >= known && base->proxy[at] >= proxy)
    return;
  if (ownCount == ownRoom || base.use_count() == 1) {
    Shared &mine = unshared(true);
    mine.known[at] = std::max(mine.known[at], known);
    mine.proxy[at] = std::max(mine.proxy[at], proxy);
  } else
    own[ownCount++] = {agent, known, proxy};
}

void Clock::joinShared(Shared &into, const Shared &from) {
  combine(into.known, from.known, larger);
  combine(into.proxy, from.proxy, larger);
}

void Clock::join(const Clock &other) {
  if (other.base != base && other.base != joined) {
    joinShared(unshared(false), *other.base);
    joined = other.base;
  }
  for (int i = 0; i < other.ownCount; ++i)
    raise(other.own[i].agent, other.own[i].known, other.own[i].proxy);
}

void Clock::join(const Clock &other, Memory &memory) {
  if (memory.from && memory.from == base) {
    base = memory.to;
    for (int i = 0; i < other.ownCount; ++i)
      raise(other.own[i].agent, other.own[i].known, other.own[i].proxy);
    return;
  }
  std::shared_ptr<Shared> before = base;
  join(other);
  memory = {std::move(before), base};
}

void Clock::joinAll(const std::vector<Clock *> &clocks) {
  Clock all;
  all.base = std::make_shared<Shared>(*clocks[0]->base);
  all.joined = clocks[0]->base;
  for (const Clock *clock : clocks)
    all.join(*clock);
  all.joined = nullptr;
  for (Clock *clock : clocks)
    *clock = all;
}

void Clock::meet(const Clock &other) {
  Clock flat = other;
  combine(unshared(true).known, flat.unshared(true).known, smaller);
  combine(base->proxy, flat.base->proxy, smaller);
  joined = nullptr;
}

// A thread's own accesses are in order; those of an asynchronous agent are not, not even among themselves.
static bool own(const Agents &agents, int earlier, int agent) {
  return earlier == agent && agent < agents.threads;
}

void Shadow::startBlock(std::uint32_t tick) {
  baseTick = tick;
  ++blockNumber;
  pool.clear();
  freeList = -1;
}

void Shadow::addReader(Cell &cell, int agent, std::uint32_t epoch, void *programCounter) {
  if (cell.readersBlock != blockNumber) {
    cell.readers = -1;
    cell.readersBlock = blockNumber;
  }
  std::int32_t group = agent / 32;
  std::uint32_t bit = 1u << (agent % 32);
  bool present = false;
  for (std::int32_t *link = &cell.readers; *link >= 0;) {
    Readers &entry = pool[*link];
    if (entry.group == group) {
      if (entry.epoch == epoch) {
        entry.mask |= bit;
        present = true;
      } else if ((entry.mask &= ~bit) == 0) { // a later read by the same agent says more
        std::int32_t gone = *link;
        *link = entry.next;
        pool[gone].next = freeList;
        freeList = gone;
        continue;
      }
    }
    link = &entry.next;
  }
  if (present)
    return;
  std::int32_t index = freeList;
  if (index >= 0)
    freeList = pool[index].next;
  else {
    index = static_cast<std::int32_t>(pool.size());
    pool.emplace_back();
  }
  pool[index] = {epoch, bit, group, cell.readers, programCounter};
  cell.readers = index;
}

void Shadow::dropReaders(Cell &cell) {
  if (cell.readersBlock == blockNumber && cell.readers >= 0) {
    std::int32_t last = cell.readers;
    while (pool[last].next >= 0)
      last = pool[last].next;
    pool[last].next = freeList;
    freeList = cell.readers;
  }
  cell.readers = -1;
  cell.readersBlock = blockNumber;
}

Conflict Shadow::read(const Agents &agents, std::size_t offset, std::size_t bytes, int agent, std::uint32_t epoch,
                      const Clock &clock, bool asynchronous, void *programCounter) {
  Conflict conflict;
  for (std::size_t i = offset / cellBytes; i <= (offset + bytes - 1) / cellBytes; ++i) {
    Cell &cell = cells[i];
    if (conflict.kind == ConflictKind::None) {
      if (cell.writeEpoch <= baseTick)
        conflict = {ConflictKind::Uninitialized, -1, nullptr};
      else if (!own(agents, cell.writeAgent, agent) && cell.writeEpoch > clock.known(cell.writeAgent))
        conflict = {ConflictKind::WriteRead, cell.writeAgent, cell.writer};
      else if (asynchronous && !agents.asynchronous(cell.writeAgent) && cell.writeEpoch > clock.proxy(cell.writeAgent))
        conflict = {ConflictKind::Unfenced, cell.writeAgent, cell.writer};
    }
    addReader(cell, agent, epoch, programCounter);
  }
  return conflict;
}

Conflict Shadow::write(const Agents &agents, std::size_t offset, std::size_t bytes, int agent, std::uint32_t epoch,
                       const Clock &clock, bool asynchronous, void *programCounter) {
  Conflict conflict;
  for (std::size_t i = offset / cellBytes; i <= (offset + bytes - 1) / cellBytes; ++i) {
    Cell &cell = cells[i];
    if (conflict.kind == ConflictKind::None && cell.writeEpoch > baseTick) {
      if (!own(agents, cell.writeAgent, agent) && cell.writeEpoch > clock.known(cell.writeAgent))
        conflict = {ConflictKind::WriteWrite, cell.writeAgent, cell.writer};
      else if (asynchronous && !agents.asynchronous(cell.writeAgent) && cell.writeEpoch > clock.proxy(cell.writeAgent))
        conflict = {ConflictKind::Unfenced, cell.writeAgent, cell.writer};
    }
    if (conflict.kind == ConflictKind::None && cell.readersBlock == blockNumber)
      for (std::int32_t at = cell.readers; at >= 0 && conflict.kind == ConflictKind::None; at = pool[at].next)
        for (std::uint32_t mask = pool[at].mask; mask; mask &= mask - 1) {
          int reader = 32 * pool[at].group + __builtin_ctz(mask);
          if (reader != agent && pool[at].epoch > clock.known(reader)) {
            conflict = {ConflictKind::ReadWrite, reader, pool[at].programCounter};
            break;
          }
        }
    dropReaders(cell);
    cell.writeEpoch = epoch;
    cell.writeAgent = agent;
    cell.writer = programCounter;
  }
  return conflict;
}

} // namespace tcc::emulator
