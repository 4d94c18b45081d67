// The emulated device's memory: which bytes a block has, which buffers there are, who has touched what.
#include "tests/cuda_emulator/machine.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace tcc::emulator {

static std::string hex(const void *pointer) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

// --- Shared memory ------------------------------------------------------------------------------------------------

void *Machine::sharedArray(int id, std::size_t bytes, std::size_t alignment) {
  auto found = sharedArrays.find(id);
  if (found == sharedArrays.end()) {
    staticEnd = (staticEnd + alignment - 1) / alignment * alignment;
    if (staticEnd + bytes > dynamicZone)
      fail(FindingKind::Launch, "static shared memory beyond 48 KiB; use dynamic shared memory");
    found = sharedArrays.emplace(id, std::make_pair(staticEnd, bytes)).first;
    staticEnd += bytes;
  }
  return arena + found->second.first;
}

void *Machine::dynamicShared(std::size_t alignment) {
  // Exactly as aligned as declared: a tile that needs more is found out.
  std::size_t wanted = dynamicZone + alignment;
  if (dynamicStart && dynamicStart != wanted)
    fail(FindingKind::Launch, "dynamic shared memory declared with two alignments");
  if (alignment == 0 || alignment > 8192 || (alignment & (alignment - 1)))
    fail(FindingKind::Launch, "dynamic shared memory aligned to " + std::to_string(alignment));
  dynamicStart = wanted;
#ifdef TCC_EMULATOR_ASAN
  __asan_poison_memory_region(arena + dynamicStart + dynamicBytes, 32 * 1024);
#endif
  return arena + dynamicStart;
}

std::size_t Machine::sharedOffset(const void *pointer, std::size_t bytes, std::size_t alignment) {
  std::size_t offset = static_cast<std::size_t>(static_cast<const char *>(pointer) - arena);
  bool inStatic = offset >= staticBase && offset + bytes <= staticEnd;
  bool inDynamic = dynamicStart && offset >= dynamicStart && offset + bytes <= dynamicStart + dynamicBytes;
  if (offset >= arenaMapped || (!inStatic && !inDynamic))
    fail(FindingKind::OutOfBounds, std::string("`") + running->primitive + "` takes " + hex(pointer) + " + " +
                                       std::to_string(bytes) + " bytes, which is not in the block's shared memory" +
                                       (offset < arenaMapped && offset >= dynamicStart && dynamicStart
                                            ? " (dynamic byte " + std::to_string(offset - dynamicStart) + " of " +
                                                  std::to_string(dynamicBytes) + ")"
                                            : ""));
  if (offset % alignment)
    fail(FindingKind::Misaligned, std::string("`") + running->primitive + "` takes shared memory at offset " +
                                      std::to_string(offset) + "; it must be a multiple of " +
                                      std::to_string(alignment));
  return offset;
}

static const char *describeConflict(ConflictKind kind) {
  switch (kind) {
  case ConflictKind::WriteWrite:
    return "is written while an earlier write is not ordered before";
  case ConflictKind::WriteRead:
    return "is read while the write is not ordered before";
  case ConflictKind::ReadWrite:
    return "is written while an earlier read is not ordered before";
  case ConflictKind::Unfenced:
    return "is used by TMA or wgmma without fence_proxy_async by the thread that wrote it";
  default:
    return "is read before anything was written";
  }
}

void Machine::sharedAccess(std::size_t offset, std::size_t bytes, bool write, int agent, std::uint32_t epoch,
                           const Clock &clock, bool asynchronous, void *place) {
  Conflict conflict = write ? shadow.write(agents, offset, bytes, agent, epoch, clock, asynchronous, place)
                            : shadow.read(agents, offset, bytes, agent, epoch, clock, asynchronous, place);
  if (conflict.kind == ConflictKind::None)
    return;
  auto who = [&](int agent) {
    if (agent < agents.threads)
      return "thread " + std::to_string(agent);
    if (agent < 2 * agents.threads)
      return "an asynchronous copy of thread " + std::to_string(agent - agents.threads);
    if (agent < agents.warpgroup(0))
      return std::string("a TMA load");
    return "a wgmma of warpgroup " + std::to_string(agent - agents.warpgroup(0));
  };
  std::string where = dynamicStart && offset >= dynamicStart ? "dynamic byte " + std::to_string(offset - dynamicStart)
                                                             : "static byte " + std::to_string(offset - staticBase);
  std::string text = "shared memory (" + where + ") " + describeConflict(conflict.kind) + ": " + who(agent);
  std::vector<std::pair<std::string, void *>> others;
  if (conflict.agent >= 0)
    others.emplace_back(", earlier " + who(conflict.agent) + " at ", conflict.programCounter);
  report(conflict.kind == ConflictKind::Uninitialized ? FindingKind::Uninitialized : FindingKind::Race, text, place,
         others);
}

// --- Global memory ------------------------------------------------------------------------------------------------

void Machine::addBuffer(DeviceBuffer *buffer) {
  buffers[buffer->base] = buffer;
}
void Machine::removeBuffer(DeviceBuffer *buffer) {
  buffers.erase(buffer->base);
  forgetRecentBuffers();
}

DeviceBuffer *Machine::bufferAt(const void *pointer, std::size_t bytes, bool nearby) {
  const char *address = static_cast<const char *>(pointer);
  for (const RecentBuffer &recent : recentBuffers)
    if (address >= recent.begin && address + bytes <= recent.end)
      return recent.buffer;
  auto after = buffers.upper_bound(address);
  if (after != buffers.begin()) {
    DeviceBuffer *buffer = std::prev(after)->second;
    if (address + bytes <= buffer->base + buffer->size && !buffer->retired) {
      recentBuffers[nextRecent++ % recentBuffers.size()] = {buffer->base, buffer->base + buffer->size, buffer};
      return buffer;
    }
    if (nearby && address < buffer->mapping + buffer->mappedBytes)
      return buffer;
  }
  if (nearby && after != buffers.end() && address >= after->second->mapping)
    return after->second;
  return nullptr;
}

std::string Machine::describeAddress(const char *address) {
  DeviceBuffer *buffer = bufferAt(address, 1, true);
  if (!buffer)
    return hex(address) + ", outside every buffer";
  return "byte " + std::to_string(address - buffer->base) + " of `" + buffer->label + "`, which " +
         (buffer->retired ? "was freed" : "has " + std::to_string(buffer->size));
}

void Machine::requireGlobal(const void *pointer, std::size_t bytes, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment)
    fail(FindingKind::Misaligned, std::string("`") + running->primitive + "` takes global memory at " + hex(pointer) +
                                      "; it must be a multiple of " + std::to_string(alignment));
  if (bufferAt(pointer, bytes))
    return;
  fail(FindingKind::OutOfBounds, std::string("`") + running->primitive + "` takes " + std::to_string(bytes) +
                                     " bytes at " + describeAddress(static_cast<const char *>(pointer)));
}

void Machine::access(const void *pointer, std::size_t bytes, bool write, void *place) {
  if (!bytes)
    return;
  std::size_t offset = static_cast<std::size_t>(static_cast<const char *>(pointer) - arena);
  if (offset < arenaMapped) {
    running->place = place;
    const char *kept = running->primitive;
    running->primitive = write ? "store" : "load";
    sharedOffset(pointer, bytes, 1);
    running->primitive = kept;
    sharedAccess(offset, bytes, write, running->view.x, running->epoch, running->clock, false, place);
    return;
  }
  if (DeviceBuffer *buffer = bufferAt(pointer, bytes)) {
    globalAccess(*buffer, pointer, bytes, write ? GlobalShadow::Use::Write : GlobalShadow::Use::Read, place);
    return;
  }
  if (bufferAt(pointer, bytes, true)) {
    running->place = place;
    running->primitive = write ? "store" : "load";
    requireGlobal(pointer, bytes, 1);
  }
  if (write)
    report(FindingKind::OutOfBounds, "store to " + hex(pointer) + ", outside every buffer", place);
}

void Machine::count(const void *pointer, std::size_t bytes, void *place) {
  std::size_t offset = static_cast<std::size_t>(static_cast<const char *>(pointer) - arena);
  if (offset < arenaMapped)
    traffic.add(running->view.x, true, offset, static_cast<unsigned>(bytes), place);
  else if (bufferAt(pointer, bytes))
    traffic.add(running->view.x, false, reinterpret_cast<std::uintptr_t>(pointer), static_cast<unsigned>(bytes), place);
}

void Machine::startGlobalShadow() {
  if (tick > 1u << 30) { // epochs of earlier launches are void anyway
    tick = 0;
    shadow.configure(arenaMapped);
    for (auto &[base, buffer] : buffers)
      if (buffer->shadow)
        buffer->shadow->forget();
  }
  launchTick = newTick();
  blockStarts.clear();
}

static const char *describeConflict(GlobalShadow::Kind kind) {
  return describeConflict(kind == GlobalShadow::Kind::WriteWrite  ? ConflictKind::WriteWrite
                          : kind == GlobalShadow::Kind::WriteRead ? ConflictKind::WriteRead
                                                                  : ConflictKind::ReadWrite);
}

void Machine::globalAccess(const void *pointer, std::size_t bytes, GlobalShadow::Use use, void *place) {
  DeviceBuffer *buffer = schedule.checkAccesses ? bufferAt(pointer, bytes) : nullptr;
  if (buffer)
    globalAccess(*buffer, pointer, bytes, use, place);
}

void Machine::globalAccess(DeviceBuffer &buffer, const void *pointer, std::size_t bytes, GlobalShadow::Use use,
                           void *place) {
  bool write = use == GlobalShadow::Use::Write || use == GlobalShadow::Use::CopyTo;
  if (unfinishedStores)
    if (const Store *store = unfinishedStoreOver(static_cast<const char *>(pointer), bytes)) {
      report(FindingKind::Race,
             std::string("global memory is ") + (write ? "written" : "read") +
                 " while a TMA store to it is unfinished; tma_store_wait_read waits for the source alone",
             place, {{", the store at ", store->place}});
      return;
    }
  if (!buffer.shadow)
    buffer.shadow = std::make_unique<GlobalShadow>(buffer.size);
  int self = running->view.x;
  GlobalShadow::Access access{static_cast<std::size_t>(static_cast<const char *>(pointer) - buffer.base),
                              bytes,
                              use,
                              buffer.onceBytes != 0,
                              self,
                              0,
                              &running->clock,
                              place,
                              launchTick,
                              blockTick};
  access.epoch = access.copies() ? tick : running->epoch;
  GlobalShadow::Conflict conflict = buffer.shadow->record(access);
  using Kind = GlobalShadow::Kind;
  if (conflict.kind == Kind::None)
    return;
  auto earlierBlock = [&] {
    auto after = std::partition_point(blockStarts.begin(), blockStarts.end(),
                                      [&](const auto &start) { return start.first < conflict.epoch; });
    return std::to_string(std::prev(after)->second);
  };
  std::string where = "byte " + std::to_string(conflict.byte) + " of `" + buffer.label + "`";
  std::string here = where + (write ? " is written by block " : " is read by block ") + std::to_string(blockIndex);
  if (conflict.kind == Kind::WrittenTwice)
    report(FindingKind::WrittenTwice,
           "element " + std::to_string(conflict.byte / static_cast<std::size_t>(buffer.onceBytes)) + " of `" +
               buffer.label + "` is written twice; the first time by block " + earlierBlock(),
           place);
  else if (conflict.kind == Kind::ReadOnlyWritten)
    report(FindingKind::Race,
           where + (write ? " is written after" : " was written before") +
               " a read-only load in one launch; such a load need not see what the launch writes",
           place);
  else if (conflict.kind == Kind::OtherBlockWrote)
    report(FindingKind::Race, here + " and written by block " + earlierBlock() + "; blocks of a launch have no order",
           place);
  else if (conflict.kind == Kind::OtherBlockRead)
    report(FindingKind::Race, here + " and read by block " + earlierBlock() + "; blocks of a launch have no order",
           place);
  else
    report(FindingKind::Race,
           "global memory (" + where + ") " + describeConflict(conflict.kind) + ": thread " + std::to_string(self) +
               ", earlier thread " + std::to_string(conflict.thread),
           place,
           conflict.place ? std::vector<std::pair<std::string, void *>>{{" at ", conflict.place}}
                          : std::vector<std::pair<std::string, void *>>{});
}

void Machine::finishGlobalShadow() {
  if (aborted)
    return;
  for (auto &[base, buffer] : buffers) {
    std::size_t missing = 0, first = 0;
    for (std::size_t i = 0; buffer->onceBytes && i < buffer->size / GlobalShadow::cellBytes; ++i)
      if ((!buffer->shadow || !buffer->shadow->written(i, launchTick)) && missing++ == 0)
        first = 2 * i / static_cast<std::size_t>(buffer->onceBytes);
    if (missing)
      report(FindingKind::NotWritten,
             std::to_string(2 * missing / static_cast<std::size_t>(buffer->onceBytes)) + " elements of `" +
                 buffer->label + "` are never written; the first is " + std::to_string(first),
             nullptr);
  }
}

} // namespace tcc::emulator
