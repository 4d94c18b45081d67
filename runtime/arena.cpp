#include "runtime/arena.h"
#include "runtime/huge_pages.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tcc::runtime {
namespace {

constexpr int64_t line = 64;
constexpr int64_t largeBytes = 32 << 20;

int64_t pageBytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t roundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

Expected<Arena> Arena::create(int64_t bytes, int64_t alignment) {
  Arena arena;
  arena.unit = alignment;
  if (bytes == 0)
    return arena;
  const int64_t mapped = roundUp(bytes, pageBytes());
  void *mapping = ::mmap(nullptr, static_cast<size_t>(mapped + pageBytes()), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return Error("no memory for an arena of " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  arena.mapping = static_cast<char *>(mapping);
  arena.mapped = mapped;
  arena.size = bytes;
  if (::mprotect(arena.mapping + mapped, static_cast<size_t>(pageBytes()), PROT_NONE) != 0)
    return Error("cannot protect the page after the arena: " + std::string(std::strerror(errno)));
  // In a small arena residentBytes() counts what was touched, and not its 2 MiB neighbourhood.
  if (mapped < largeBytes)
    ::madvise(mapping, static_cast<size_t>(mapped), MADV_NOHUGEPAGE);
  else
    askForHugePages(mapping, static_cast<size_t>(mapped));
  return arena;
}

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(mapping, other.mapping);
  std::swap(mapped, other.mapped);
  std::swap(size, other.size);
  std::swap(unit, other.unit);
  return *this;
}

Arena::~Arena() {
  if (mapping)
    ::munmap(mapping, static_cast<size_t>(mapped + pageBytes()));
}

char *Arena::window(int64_t part) const {
  return mapping ? mapping + mapped - roundUp(part, unit) : nullptr;
}

int64_t Arena::residentBytes(int64_t part) const {
  if (!mapping)
    return 0;
  std::vector<unsigned char> pages(static_cast<size_t>(mapped / pageBytes()));
  if (::mincore(mapping, static_cast<size_t>(mapped), pages.data()) != 0)
    return -1;
  char *const start = window(part);
  int64_t resident = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    if (!(pages[i] & 1))
      continue;
    // The part of the page that the arena covers.
    const char *begin = std::max(mapping + static_cast<int64_t>(i) * pageBytes(), start);
    const char *end = std::min(mapping + static_cast<int64_t>(i + 1) * pageBytes(), start + part);
    resident += std::max<int64_t>(0, end - begin);
  }
  return resident;
}

void Arena::poison(int64_t part) {
  if (mapping && part)
    std::memset(window(part), 0xFF, static_cast<size_t>(part));
}

int64_t Arena::changedBytes(int64_t part) const {
  const char *start = window(part);
  if (!start)
    return 0;
  char untouched[line];
  std::memset(untouched, 0xFF, sizeof untouched);
  int64_t changed = 0;
  for (int64_t offset = 0; offset < part; offset += line) {
    const int64_t bytes = std::min(line, part - offset);
    if (std::memcmp(start + offset, untouched, static_cast<size_t>(bytes)) != 0)
      changed += bytes;
  }
  return changed;
}

} // namespace tcc::runtime
