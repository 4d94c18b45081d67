// The in-memory cache of executables, keyed by guards: what a compiled step assumed about its inputs and about the
// values captured from the host program. Every miss says which guard differs from the nearest entry.
#pragma once
#include "runtime/dtype.h"
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace tcc::runtime {

/// A 64-bit hash of a sequence, fed item by item; equal sequences give equal hashes on every machine.
class RollingHash {
public:
  constexpr void add(uint64_t item) {
    state = (state ^ item) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  }
  constexpr void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    uint64_t word = 0;
    size_t filled = 0;
    for (char c : text) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(c)) << (8 * filled);
      if (++filled == 8) {
        add(word);
        word = 0;
        filled = 0;
      }
    }
    if (filled)
      add(word);
  }
  constexpr uint64_t value() const { return state; }

private:
  uint64_t state = 0x6a09e667f3bcc909u;
};

enum class GuardKind : uint8_t { program, dtype, shape, device, constant };

/// One assumption. The views need to live only for the call; the cache copies them when it stores an entry.
struct Guard {
  GuardKind kind = GuardKind::shape;
  std::string_view what; ///< the name of the input, program or constant; a constant may have none
  /// shape: dims; dtype: DType; constant: int64_t, double or text; program: its hash as uint64_t; device: text.
  std::variant<std::span<const int64_t>, DType, int64_t, double, uint64_t, std::string_view> value;
  std::string_view file; ///< where the value was captured; empty when unknown
  uint32_t line = 0;
};

/// Feeds a guard (all but its source position) to a hash.
void hashGuard(RollingHash &hash, const Guard &guard);
uint64_t hashGuards(std::span<const Guard> guards);

struct CacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t evictions = 0;
  int64_t recompiles = 0; ///< misses although something was compiled before
};

/// Bytes that the caches of one device hold together.
using SharedBytes = std::shared_ptr<std::atomic<int64_t>>;

/// The cache below without the type of its values. One cache is not thread-safe; several caches that share a total may
/// be used on different threads.
class GuardCache {
public:
  /// `byteCap` bounds the bytes that insert() was told, summed over all caches with the same `total`. A cache evicts
  /// only its own entries, and never its newest one. `report` gets the reason of every recompile; by default it is
  /// printed on stderr.
  explicit GuardCache(int64_t byteCap = int64_t{4} << 30, std::function<void(std::string_view)> report = {},
                      SharedBytes total = {});
  GuardCache(const GuardCache &) = delete;
  GuardCache &operator=(const GuardCache &) = delete;
  ~GuardCache() { clear(); }

  /// The entry whose guards all hold, or null. After a null lastMissReason() says why; the caller compiles and inserts.
  std::shared_ptr<void> find(std::span<const Guard> guards, uint64_t hash);
  /// Whether find() would give an entry. This changes no counter and reports nothing.
  bool contains(std::span<const Guard> guards, uint64_t hash) { return locate(guards, hash) != entries.end(); }
  /// Adds an entry, in place of one with equal guards, and evicts the least recently used entries until the bytes are
  /// within the cap.
  void insert(std::span<const Guard> guards, uint64_t hash, std::shared_ptr<void> value, int64_t bytes);

  const CacheCounters &counters() const { return counts; }
  const std::string &lastMissReason() const { return missReason; }
  int64_t bytes() const { return ownBytes; }
  size_t size() const { return entries.size(); }
  void clear();

private:
  struct StoredGuard {
    GuardKind kind;
    std::string what;
    std::variant<std::vector<int64_t>, DType, int64_t, double, uint64_t, std::string> value;
    std::string file;
    uint32_t line;
  };
  struct Entry {
    uint64_t hash;
    std::vector<StoredGuard> guards;
    std::shared_ptr<void> value;
    int64_t bytes;
  };
  using EntryList = std::list<Entry>;

  static bool matches(const StoredGuard &stored, const Guard &guard);
  static bool matches(const Entry &entry, std::span<const Guard> guards);
  EntryList::iterator locate(std::span<const Guard> guards, uint64_t hash);
  std::string explainMiss(std::span<const Guard> guards, uint64_t hash) const;
  void erase(EntryList::iterator entry);
  void evict();

  int64_t byteCap;
  std::function<void(std::string_view)> report;
  EntryList entries; // most recently used first
  std::unordered_multimap<uint64_t, EntryList::iterator> index;
  std::unordered_set<uint64_t> evicted; // hashes of what was thrown out
  CacheCounters counts;
  std::string missReason;
  int64_t ownBytes = 0;
  SharedBytes total;
};

/// The cache of one kind of value (an Executable, or a frontend's record around one).
template <typename Value>
class GuardedCache : public GuardCache {
public:
  using GuardCache::GuardCache;
  std::shared_ptr<Value> find(std::span<const Guard> guards) { return find(guards, hashGuards(guards)); }
  std::shared_ptr<Value> find(std::span<const Guard> guards, uint64_t hash) {
    return std::static_pointer_cast<Value>(GuardCache::find(guards, hash));
  }
  void insert(std::span<const Guard> guards, std::shared_ptr<Value> value, int64_t bytes) {
    GuardCache::insert(guards, hashGuards(guards), std::move(value), bytes);
  }
  using GuardCache::insert;
};

} // namespace tcc::runtime
