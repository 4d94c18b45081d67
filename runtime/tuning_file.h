// What measurement chose, remembered in a file: measured once, equal bits from then on.
#pragma once
#include "runtime/error.h"
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tcc::runtime {

/// An algorithm as cuBLASLt gives it; opaque, and of one version of the library alone.
using Algorithm = std::array<std::uint64_t, 8>;

/// JSON text: {"version": 1, "products": {key: {"algorithm": hex, "checksum": hex}}, "choices": {key: {"choice": word,
/// "checksum": hex}}}. Keys name the machine, so one file may serve several. Entries whose checksum does not fit are as
/// if they were not there.
class TuningFile {
public:
  /// Without a path nothing is read or written. A file that is not there is an empty one. Errors: a file that cannot be
  /// read or is not of this form, by name: it is never overwritten.
  static Expected<TuningFile> open(const std::string &path);
  /// For a file that a user keeps: makes an empty one where there is none. Errors: as above; an entry whose checksum
  /// does not fit.
  static Error check(const std::string &path);

  bool isKept() const { return !path.empty(); }
  std::optional<Algorithm> find(const std::string &key) const;
  /// Remembers the choice and writes the file, atomically, with what other processes have added since it was read.
  /// Gives the choice that holds: another process's where it was first.
  Expected<Algorithm> add(const std::string &key, const Algorithm &algorithm);
  /// Forgets an algorithm that the library no longer takes, until add() puts another one in its place.
  void drop(const std::string &key);

  /// The same of a choice that is a word.
  std::optional<std::string> choice(const std::string &key) const;
  Expected<std::string> addChoice(const std::string &key, const std::string &choice);

private:
  struct Content {
    std::map<std::string, Algorithm> products;
    std::map<std::string, std::string> choices;
    std::string damaged; // the key of an entry whose checksum does not fit
  };
  static Expected<Content> read(const std::string &path);
  Error write() const;
  Error takeOthers();

  std::string path;
  Content content;
  std::map<std::string, Algorithm> dropped;
};

} // namespace tcc::runtime
