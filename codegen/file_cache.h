// Results on disk, so that a machine makes each once: machine code of kernels, whole compiled steps. One file an entry,
// written whole; what is damaged, foreign or unreadable is no entry.
#pragma once
#include "runtime/error.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// A folder with a folder for each kind of entry. Any thread; any number of processes at once.
class FileCache {
public:
  static constexpr int64_t usualBytes = int64_t{1} << 30;
  /// The kinds that there are, which share the bound.
  static constexpr std::string_view kernels = "kernels", steps = "steps";
  static constexpr std::array<std::string_view, 2> kinds = {kernels, steps};

  /// Keeps nothing.
  FileCache() = default;
  /// In `folder`, which is made when the first entry is stored; an empty name keeps nothing. Once all entries have more
  /// than `mostBytes` together, those that were used longest ago go.
  explicit FileCache(std::string folder, int64_t mostBytes = usualBytes);

  /// The folder of the user: $TCC_CACHE_DIR, else $XDG_CACHE_HOME/tcc, else ~/.cache/tcc. Empty where TCC_CACHE_DIR is
  /// `off`, or where none of them is set to an absolute path.
  static std::string userFolder();

  /// Empty: nothing is kept.
  const std::string &place() const { return folder; }

  /// The bytes that were stored under the key, all that they depend on; nothing where there is no entry that is whole.
  std::optional<std::string> find(std::string_view kind, std::string_view key) const;
  /// Errors: the folder belongs to somebody else or others may write to it; more than half of the bound; the system's.
  /// The caller can go on without.
  runtime::Error store(std::string_view kind, std::string_view key, std::string_view bytes) const;
  /// The file that the key's entry has, or would have.
  std::string fileOf(std::string_view kind, std::string_view key) const;

  /// The first bytes of the entries that were used last, up to `entries` of them and `bytes` of each: for reports, for
  /// nobody has looked whether they are whole.
  std::vector<std::string> newest(std::string_view kind, size_t entries, size_t bytes) const;

  /// Holds the key for one process at a time, as long as the object lives; the end of a process lets it go.
  class Turn {
  public:
    Turn() = default;
    Turn(Turn &&other) noexcept : descriptor(other.descriptor) { other.descriptor = -1; }
    Turn &operator=(Turn &&) = delete;
    ~Turn();

  private:
    friend class FileCache;
    int descriptor = -1;
  };
  /// Waits until nobody else has the key, for `seconds` at most; then, and where the file system knows no locks, the
  /// caller goes on all the same.
  Turn wait(std::string_view kind, std::string_view key, double seconds = 30) const;

  /// What is counted; an eviction is an entry that went because of the bound.
  enum class Event : uint8_t { hit, miss, eviction };
  /// Counts for usage(), since the cache was cleared. Where that fails, or others count at the same moment for long,
  /// nothing is counted.
  void count(std::string_view kind, Event event, int64_t times = 1) const;

  struct Usage {
    std::string kind;
    int64_t entries = 0, bytes = 0;
    int64_t hits = 0, misses = 0, evictions = 0;
  };
  /// Of each kind.
  std::vector<Usage> usage() const;
  /// Removes all entries, and no other file. Errors: the folder is not the user's; the system's.
  runtime::Error clear() const;

  int64_t limit() const { return mostBytes; }

private:
  std::string folderOf(std::string_view kind) const { return folder + "/" + std::string(kind); }
  runtime::Error make(const std::string &kindFolder) const;
  void dropOldest(std::string_view digest, int64_t added) const;
  std::string countsFile() const { return folder + "/counts"; }

  std::string folder;
  int64_t mostBytes = usualBytes;
};

} // namespace tcc
