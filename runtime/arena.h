// The arena: one mapping for everything that lives inside a step, ending at a page that nobody may touch.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <utility>

namespace tcc::runtime {

class Arena {
public:
  Arena() = default;
  /// `bytes` of zeros from the system; not yet backed by memory. `alignment` is a power of two, 64 to a page's 4096.
  static Expected<Arena> create(int64_t bytes, int64_t alignment = 64);
  Arena(Arena &&other) noexcept { *this = std::move(other); }
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// Aligned; [data, data + bytes) ends less than the alignment before the forbidden page.
  char *data() const { return window(size); }
  int64_t bytes() const { return size; }
  int64_t alignment() const { return unit; }

  /// The last `part` of its bytes, for a step that needs fewer: aligned, ending before the forbidden page as all do.
  /// The functions below look at such a part.
  char *window(int64_t part) const;
  /// Bytes on pages that the system has given memory to (the first touch of each page counts).
  int64_t residentBytes(int64_t part) const;
  /// Fills everything with 0xFF bytes: NaN in every float type.
  void poison(int64_t part);
  /// Bytes in 64-byte lines that no longer are all 0xFF.
  int64_t changedBytes(int64_t part) const;

private:
  char *mapping = nullptr;
  int64_t mapped = 0; // without the forbidden page
  int64_t size = 0;
  int64_t unit = 64;
};

} // namespace tcc::runtime
