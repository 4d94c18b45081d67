// Large pages for large memory: the first touch of 2 MiB is one page fault and not 512, and a matmul's operands need
// fewer entries of the processor's address tables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace tcc::runtime {

inline constexpr size_t hugePageBytes = 2 << 20;

/// Asks the system for large pages in a range; it gives them where whole ones fit. Ranges in which few would are left
/// as they are. The system may be set to give none.
inline void askForHugePages(void *begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + page - 1) / page * page, last = (address + bytes) / page * page;
  if (bytes >= 2 * hugePageBytes)
    ::madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
}

} // namespace tcc::runtime
