// The arena: one mapping for everything that lives inside a step, ending at a page that nobody may touch.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <utility>

namespace tcc::runtime {

class Arena {
public:
  Arena() = default;
  /// `bytes` of zeros from the system; not yet backed by memory.
  static Expected<Arena> create(int64_t bytes);
  Arena(Arena &&other) noexcept { *this = std::move(other); }
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// 64-byte aligned; [data, data + bytes) ends less than 64 bytes before the forbidden page.
  char *data() const { return start; }
  int64_t bytes() const { return size; }

  /// Bytes on pages that the system has given memory to (the first touch of each page counts).
  int64_t residentBytes() const;
  /// Fills everything with 0xFF bytes: NaN in every float type.
  void poison();
  /// Bytes in 64-byte lines that no longer are all 0xFF.
  int64_t changedBytes() const;

private:
  char *mapping = nullptr;
  char *start = nullptr;
  int64_t mapped = 0; // without the forbidden page
  int64_t size = 0;
};

} // namespace tcc::runtime
