// FileCache: keeps the machine code of kernels and whole compiled steps on disk, so that a machine makes each only
// once. Each entry is a file, which is written whole. A file that is damaged, foreign or unreadable counts as no entry.
#pragma once
#include "runtime/error.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// A folder that has a folder for each kind of entry. Any number of threads and processes may use it at once.
class FileCache {
public:
  static constexpr int64_t usualBytes = int64_t{1} << 30;
  /// The kinds of entries. They share one bound of bytes.
  static constexpr std::string_view kernels = "kernels", steps = "steps";
  static constexpr std::array<std::string_view, 2> kinds = {kernels, steps};

  /// A cache that keeps nothing.
  FileCache() = default;
  /// A cache that keeps nothing, and why, for people: "by --no-cache".
  static FileCache off(std::string why);
  /// A cache in userFolder(), or one that keeps nothing where there is no such folder.
  static FileCache ofUser(int64_t mostBytes = usualBytes);
  /// A cache in `folder`, which is made when the first entry is stored; if the name is empty, nothing is kept. When all
  /// entries together have more than `mostBytes`, those that were used longest ago are removed.
  explicit FileCache(std::string folder, int64_t mostBytes = usualBytes);

  /// The folder of the user: $TCC_CACHE_DIR, else $XDG_CACHE_HOME/tcc, else ~/.cache/tcc. Empty if TCC_CACHE_DIR is
  /// `off`, or if none of them names a folder. A relative TCC_CACHE_DIR begins at the working directory.
  static std::string userFolder();

  /// The cache's folder; empty if nothing is kept.
  const std::string &place() const { return folder; }
  /// Why nothing is kept, if that is known: "by --no-cache".
  const std::string &whyOff() const { return reasonOff; }

  /// The bytes that were stored under the key, which must hold all that they depend on. Nothing if there is no whole
  /// entry. One that is there and cannot be taken is removed, and `damage`, unless it is null, gets what was wrong:
  /// "the entry was damaged and is removed".
  std::optional<std::string> find(std::string_view kind, std::string_view key, std::string *damage = nullptr) const;
  /// Stores an entry. Errors: the folder belongs to somebody else, or others may write to it; the entry has more than
  /// half of the bound; an error of the system. The caller can go on without the entry.
  runtime::Error store(std::string_view kind, std::string_view key, std::string_view bytes) const;
  /// The file that the key's entry has, or would have.
  std::string fileOf(std::string_view kind, std::string_view key) const;

  /// The first bytes of the entries that were used last: at most `entries` entries and `bytes` bytes of each. They are
  /// meant for reports, since they are not checked.
  std::vector<std::string> newest(std::string_view kind, size_t entries, size_t bytes) const;

  /// Holds a key for one process, as long as the object lives. A process that ends gives the key free.
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
  /// Waits until no other process holds the key, but at most `seconds`. After that time, and if the file system has no
  /// locks, the caller goes on without holding it.
  Turn wait(std::string_view kind, std::string_view key, double seconds = 30) const;

  /// What is counted. An eviction is the removal of an entry because of the bound.
  enum class Event : uint8_t { hit, miss, eviction };
  /// Adds to the counts of usage(), which begin when the cache is cleared. If that fails, or if other processes hold
  /// the counts for long, nothing is counted.
  void count(std::string_view kind, Event event, int64_t times = 1) const;

  struct Usage {
    std::string kind;
    int64_t entries = 0, bytes = 0;
    int64_t hits = 0, misses = 0, evictions = 0;
  };
  /// The usage of each kind.
  std::vector<Usage> usage() const;
  /// Removes all entries, and no other file. Errors: the folder does not belong to the user; an error of the system.
  runtime::Error clear() const;

  int64_t limit() const { return mostBytes; }

private:
  std::string folderOf(std::string_view kind) const { return folder + "/" + std::string(kind); }
  runtime::Error make(const std::string &kindFolder) const;
  void dropOldest(std::string_view digest, int64_t added) const;
  std::string countsFile() const { return folder + "/counts"; }

  std::string folder, reasonOff;
  int64_t mostBytes = usualBytes;
};

} // namespace tcc
