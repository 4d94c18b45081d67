#include "python/src/result_memory.h"
#include "runtime/huge_pages.h"
#include <algorithm>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tcc::python {

ResultMemory &ResultMemory::ofProcess() {
  static auto *memory = [] {
    const auto pages = static_cast<size_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
    auto *made = new ResultMemory(2 * pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
    // A child of fork() has the memory as it was, and no thread that would unlock it.
    ::pthread_atfork([] { ofProcess().mutex.lock(); }, [] { ofProcess().mutex.unlock(); },
                     [] { ofProcess().mutex.unlock(); });
    return made;
  }();
  return *memory;
}

ResultMemory::ResultMemory(size_t bytes) {
  void *range = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) // a limit of addresses, say: take() gives null
    return;
  runtime::askForHugePages(range, bytes);
  used = reinterpret_cast<uintptr_t>(range);
  addFree(used, bytes);
}

void *ResultMemory::take(size_t bytes) {
  bytes = (std::max(bytes, size_t{1}) + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(mutex);
  const auto found = freeBySize.lower_bound({bytes, 0});
  if (found == freeBySize.end())
    return nullptr;
  const auto [size, begin] = *found;
  removeFree(freeByPlace.find(begin));
  if (size > bytes)
    addFree(begin + bytes, size - bytes);
  taken[begin] = bytes;
  used = std::max(used, begin + bytes);
  count.taken += bytes;
  count.most = std::max(count.most, count.taken);
  return reinterpret_cast<void *>(begin);
}

void ResultMemory::give(void *memory) {
  const std::lock_guard lock(mutex);
  const auto part = taken.extract(reinterpret_cast<uintptr_t>(memory));
  uintptr_t begin = part.key();
  size_t bytes = part.mapped();
  count.taken -= bytes;
  const auto after = freeByPlace.lower_bound(begin);
  if (after != freeByPlace.begin())
    if (const auto before = std::prev(after); before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      removeFree(before);
    }
  if (after != freeByPlace.end() && part.key() + part.mapped() == after->first) {
    bytes += after->second;
    removeFree(after);
  }
  addFree(begin, bytes);
}

void ResultMemory::trim() {
  const std::lock_guard lock(mutex);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const auto &[place, size] : freeByPlace) {
    const uintptr_t first = (place + page - 1) / page * page, last = std::min(place + size, used) / page * page;
    if (first < last)
      ::madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
  }
  if (!freeByPlace.empty())
    if (const auto &[place, size] = *freeByPlace.rbegin(); place + size >= used)
      used = std::min(used, place);
  count.most = count.taken;
}

ResultMemory::Usage ResultMemory::usage() {
  const std::lock_guard lock(mutex);
  return count;
}

void ResultMemory::addFree(uintptr_t begin, size_t bytes) {
  freeByPlace.emplace(begin, bytes);
  freeBySize.emplace(bytes, begin);
}

void ResultMemory::removeFree(std::map<uintptr_t, size_t>::iterator part) {
  freeBySize.erase({part->second, part->first});
  freeByPlace.erase(part);
}

} // namespace tcc::python
