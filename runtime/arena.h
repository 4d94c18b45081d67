// The arena: one mapping for everything that lives inside a step. The page after it may not be touched, so that an
// access beyond the end faults.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <utility>

namespace tcc::runtime {

class Arena {
public:
  Arena() = default;
  /// `bytes` of zeros, to which the system gives memory when they are first touched. `alignment` is a power of two from
  /// 64 to 4096 (a page). Errors: the system gives no mapping.
  static Expected<Arena> create(int64_t bytes, int64_t alignment = 64);
  Arena(Arena &&other) noexcept { *this = std::move(other); }
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// The first byte, aligned. The last one lies less than the alignment before the forbidden page.
  char *data() const { return window(size); }
  int64_t bytes() const { return size; }
  int64_t alignment() const { return unit; }

  /// Where the last `part` bytes begin, which a step uses that needs fewer bytes than there are. They are aligned and
  /// end at the forbidden page just as the whole arena does. The functions below look at such a part.
  char *window(int64_t part) const;
  /// Bytes of the part on pages to which the system has given memory, since they were touched; -1 if it does not say.
  /// Arenas of 32 MiB and more may have pages of 2 MiB.
  int64_t residentBytes(int64_t part) const;
  /// Fills everything with 0xFF bytes: NaN in every float type.
  void poison(int64_t part);
  /// Bytes of the part in 64-byte lines that are not all 0xFF any more.
  int64_t changedBytes(int64_t part) const;

private:
  char *mapping = nullptr;
  int64_t mapped = 0; // without the forbidden page
  int64_t size = 0;
  int64_t unit = 64;
};

} // namespace tcc::runtime
