#include "tests/cuda_emulator/global_shadow.h"

#include <new>
#include <sys/mman.h>

namespace tcc::emulator {

GlobalShadow::GlobalShadow(std::size_t bytes) : mappedBytes((bytes / cellBytes + 1) * sizeof(Cell)) {
  void *mapped = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  cells = static_cast<Cell *>(mapped);
}

GlobalShadow::~GlobalShadow() {
  munmap(cells, mappedBytes);
}

void GlobalShadow::forget() {
  madvise(cells, mappedBytes, MADV_DONTNEED);
}

GlobalShadow::Conflict GlobalShadow::conflictOf(const Cell &cell, const Access &access, std::uint8_t mask) const {
  auto unordered = [&](std::uint16_t agent, std::uint32_t epoch) {
    return !access.copies() && agent != nobody && agent != access.thread && epoch > access.clock->known(agent);
  };
  if (access.writes() && (cell.mask(readOnlyMask) & mask))
    return {Kind::ReadOnlyWritten, 0, access.epoch, -1, nullptr};
  if (cell.writeEpoch > access.launch && (cell.mask(writeMask) & mask)) {
    Conflict conflict{Kind::None, 0, cell.writeEpoch, cell.writer == nobody ? -1 : cell.writer, nullptr};
    std::uintptr_t upper = reinterpret_cast<std::uintptr_t>(access.place) & ~std::uintptr_t{0xffffffff};
    conflict.place = reinterpret_cast<void *>(upper | cell.writePlace);
    if (access.use == Use::ReadOnly)
      conflict.kind = Kind::ReadOnlyWritten;
    else if (access.writes() && access.once)
      conflict.kind = Kind::WrittenTwice;
    else if (cell.writeEpoch <= access.block)
      conflict.kind = Kind::OtherBlockWrote;
    else if (unordered(cell.writer, cell.writeEpoch))
      conflict.kind = access.writes() ? Kind::WriteWrite : Kind::WriteRead;
    if (conflict.kind != Kind::None)
      return conflict;
  }
  for (int i = 0; access.writes() && i < 2; ++i) {
    std::uint32_t epoch = cell.readEpoch[i];
    if (epoch <= access.launch || !(cell.mask(readMask + i) & mask))
      continue;
    if (epoch <= access.block)
      return {Kind::OtherBlockRead, 0, epoch, -1, nullptr};
    if (unordered(cell.reader[i], epoch))
      return {Kind::ReadWrite, 0, epoch, cell.reader[i], nullptr};
  }
  return {};
}

void GlobalShadow::noteRead(Cell &cell, const Access &access, std::uint8_t mask) {
  std::uint16_t self = access.copies() ? nobody : static_cast<std::uint16_t>(access.thread);
  if (access.use == Use::ReadOnly)
    cell.setMask(readOnlyMask, cell.mask(readOnlyMask) | mask);
  auto put = [&](int i, std::uint8_t bytes) {
    cell.readEpoch[i] = access.epoch;
    cell.reader[i] = self;
    cell.setMask(readMask + i, bytes);
  };
  for (int i = 0; i < 2; ++i)
    if (cell.readEpoch[i] > access.block && cell.reader[i] == self)
      return put(i, cell.mask(readMask + i) | mask);
  for (int i = 0; i < 2; ++i)
    if (cell.readEpoch[i] <= access.launch)
      return put(i, mask);
  if (cell.readEpoch[0] <= access.block)
    return put(1, mask);
  if (cell.readEpoch[1] > access.block) { // both of this block: the older one goes
    cell.readEpoch[1] = cell.readEpoch[0];
    cell.reader[1] = cell.reader[0];
    cell.setMask(readMask + 1, cell.mask(readMask));
  }
  put(0, mask);
}

void GlobalShadow::noteWrite(Cell &cell, const Access &access, std::uint8_t mask) {
  cell.writeEpoch = access.epoch;
  cell.writePlace = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(access.place));
  cell.writer = access.copies() ? nobody : static_cast<std::uint16_t>(access.thread);
  cell.setMask(writeMask, mask);
  for (int i = 0; i < 2; ++i)
    if (!(cell.mask(readMask + i) & ~mask))
      cell.readEpoch[i] = 0; // what was read lies before this write
}

GlobalShadow::Conflict GlobalShadow::record(const Access &access) {
  std::size_t end = access.offset + access.bytes;
  for (std::size_t i = access.offset / cellBytes; i <= (end - 1) / cellBytes; ++i) {
    auto mask = static_cast<std::uint8_t>((2 * i < access.offset ? 2 : 3) & (2 * i + 2 > end ? 1 : 3));
    Cell &cell = cells[i];
    if (cell.writeEpoch <= access.launch && cell.readEpoch[0] <= access.launch && cell.readEpoch[1] <= access.launch)
      cell.masks = 0;
    if (Conflict conflict = conflictOf(cell, access, mask); conflict.kind != Kind::None) {
      conflict.byte = i * cellBytes;
      return conflict;
    }
    if (access.writes())
      noteWrite(cell, access, mask);
    else
      noteRead(cell, access, mask);
  }
  return {};
}

} // namespace tcc::emulator
