// ResultMemory: where large results of steps lie. A training step makes tensors of the same sizes again and again. The
// C library gives such memory back to the system as soon as it is free, so that each step pays for every page once
// more: that is a third to a half of the time of a step of GPT-2. This memory is kept.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace tcc::python {

/// A range of addresses, twice as large as the machine's memory, of which parts are taken and given back: the smallest
/// free part that is large enough, the lowest of equal ones. What was never taken costs nothing. Its functions may be
/// called on any thread.
class ResultMemory {
public:
  static constexpr size_t alignment = 64;

  /// The one of this process; it is never destroyed, since tensors outlive all else.
  static ResultMemory &ofProcess();

  /// At least `bytes` bytes, which hold what they happen to hold; null if there is no such part.
  void *take(size_t bytes);
  /// Takes back what take() gave.
  void give(void *memory);
  /// Gives the pages of all free parts back to the system.
  void trim();

  /// Bytes that are taken now, and the most that have been since trim().
  struct Usage {
    size_t taken, most;
  };
  Usage usage();

private:
  explicit ResultMemory(size_t bytes);
  void addFree(uintptr_t begin, size_t bytes);
  void removeFree(std::map<uintptr_t, size_t>::iterator part);

  std::mutex mutex;
  std::map<uintptr_t, size_t> freeByPlace;           // no two of them touch
  std::set<std::pair<size_t, uintptr_t>> freeBySize; // the same
  std::unordered_map<uintptr_t, size_t> taken;
  uintptr_t used = 0; // the end of what has been taken since trim()
  Usage count = {};
};

} // namespace tcc::python
