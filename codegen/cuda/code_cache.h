// Machine code of kernels on disk, so that a machine compiles the same text once. One file an entry, written whole;
// what is damaged, foreign or unreadable is no entry.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tcc::cuda {

class CodeCache {
public:
  static constexpr int64_t usualBytes = int64_t(256) << 20;

  /// In `folder`, which is made when the first entry is stored; an empty name keeps nothing. Once entries have more
  /// than `mostBytes` together, those that were used longest ago go.
  explicit CodeCache(std::string folder, int64_t mostBytes = usualBytes)
      : folder(std::move(folder)), mostBytes(mostBytes) {}

  /// The folder of the user: $TCC_CACHE_DIR/kernels, else $XDG_CACHE_HOME/tcc/kernels, else ~/.cache/tcc/kernels. None
  /// where TCC_CACHE_DIR is `off`, or where none of them is set to an absolute path.
  static CodeCache ofUser();

  /// The code that was stored under the key, all that it depends on; nothing where there is none that is whole.
  std::optional<std::string> find(std::string_view key) const;
  /// Errors: the folder belongs to somebody else or others may write to it; the system's. The caller can go on without.
  runtime::Error store(std::string_view key, std::string_view code) const;

  /// Empty: nothing is kept.
  const std::string &place() const { return folder; }

private:
  std::string fileOf(std::string_view key) const;
  void dropOldest() const;

  std::string folder;
  int64_t mostBytes;
};

} // namespace tcc::cuda
