// TuningFile: remembers in a file what measurements chose. Each choice is measured once, so that later runs compute the
// same bits.
#pragma once
#include "runtime/error.h"
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tcc::runtime {

/// An algorithm as cuBLASLt gives it. It is opaque, and only the version of the library that gave it understands it.
using Algorithm = std::array<std::uint64_t, 8>;

/// JSON text: {"version": 1, "products": {key: {"algorithm": hex, "checksum": hex}}, "choices": {key: {"choice": word,
/// "checksum": hex}}}. Keys name the machine, so that one file may serve several machines. Entries with a wrong
/// checksum are ignored.
class TuningFile {
public:
  /// If `path` is empty, nothing is read or written. A file that does not exist counts as an empty one. Errors name the
  /// file: it cannot be read, or does not have this form. Such a file is never overwritten.
  static Expected<TuningFile> open(const std::string &path);
  /// Checks a file that a user keeps, and makes an empty one if there is none. Errors: as above; an entry with a wrong
  /// checksum.
  static Error check(const std::string &path);

  bool isKept() const { return !path.empty(); }
  std::optional<Algorithm> find(const std::string &key) const;
  /// Remembers the choice and writes the file, atomically, with what other processes have added since it was read.
  /// Gives the choice that holds, which is another process's if that one came first.
  Expected<Algorithm> add(const std::string &key, const Algorithm &algorithm);
  /// Forgets an algorithm that the library no longer takes, until add() puts another one in its place.
  void drop(const std::string &key);

  /// find() and add() for choices that are words.
  std::optional<std::string> choice(const std::string &key) const;
  Expected<std::string> addChoice(const std::string &key, const std::string &choice);
  /// Adds several at once. Where another process's choice came first, `choices` gets that one.
  Error addChoices(std::map<std::string, std::string> &choices);

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
