// Which algorithm a product uses on a device, remembered in a file: tuning once, equal bits from then on.
#pragma once

#include "runtime/error.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tcc::runtime::cuda {

/// An algorithm as cuBLASLt gives it; opaque, and of one version of the library alone.
using Algorithm = std::array<std::uint64_t, 8>;

/// JSON text: {"version": 1, "products": {key: {"algorithm": hex, "checksum": hex}}}. Entries whose checksum does not
/// fit are as if they were not there.
class TuningFile {
public:
  /// Without a path nothing is read or written. A file that is not there is an empty one. Errors: a file that cannot be
  /// read or is not of this form, by name: it is never overwritten.
  static Expected<TuningFile> open(const std::string &path);

  bool isKept() const { return !path.empty(); }
  std::optional<Algorithm> find(const std::string &key) const;
  /// Remembers the choice and writes the file, atomically, with what other processes have added since it was read.
  /// Gives the choice that holds: another process's where it was first.
  Expected<Algorithm> add(const std::string &key, const Algorithm &algorithm);
  /// Forgets an algorithm that the library no longer takes, until add() puts another one in its place.
  void drop(const std::string &key);

private:
  std::string path;
  std::map<std::string, Algorithm> products, dropped;
};

} // namespace tcc::runtime::cuda
