// Loc: where an op stands in the user's program. In C++ a call knows its own place; a binding of another language says
// where its users' lines are.
#pragma once
#include <bit>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace tcc {

/// A file, a line and a column, and perhaps the part of the model to which the line belongs. Each function that records
/// takes one, by default the place of its caller. It is as cheap to copy as a pointer. The names of files and scopes
/// live as long as the process.
class Loc {
public:
  Loc() = default; ///< unknown
  Loc(const std::source_location &place) : bits(std::bit_cast<uintptr_t>(place)) {}

  /// As a default argument: the place of the call.
  static Loc current(std::source_location caller = std::source_location::current()) { return caller; }

  /// A place that is known at run time, such as that of a Python frame. Lines and columns count from 1; 0 is unknown.
  /// If there is a `scope` ("h.3.mlp"), ops recorded at this place have its name, whatever Scope is open. The texts are
  /// copied once for all equal places and kept as long as the process runs, since a program has few. Any thread may
  /// call this.
  static Loc at(std::string_view file, uint32_t line, uint32_t column = 0, std::string_view scope = {});

  /// Whether there is a line.
  bool isKnown() const { return line() > 0; }
  std::string_view file() const { return isFrame() ? std::string_view(*frame()->file) : native().file_name(); }
  uint32_t line() const { return isFrame() ? frame()->line : native().line(); }
  uint32_t column() const { return isFrame() ? frame()->column : native().column(); }
  /// The part of the model; null where the place does not say it.
  const std::string *scope() const { return isFrame() ? frame()->scope : nullptr; }

private:
  struct Frame {
    const std::string *file;
    uint32_t line, column;
    const std::string *scope;
    bool operator==(const Frame &) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame &frame) const noexcept;
  };

  bool isFrame() const { return bits & 1; }
  const Frame *frame() const { return reinterpret_cast<const Frame *>(bits - 1); }
  std::source_location native() const { return std::bit_cast<std::source_location>(bits); }

  // Either a std::source_location, which is a pointer to data of the compiler; or the address of a Frame with the
  // lowest bit set, which such a pointer never has. It is small since a record has one for each op, and replaying
  // writes them all.
  uintptr_t bits = 0;
  static_assert(sizeof(std::source_location) == sizeof(uintptr_t) && alignof(Frame) > 1);
};

/// "model.py:41:9"; "model.py:41" where the column is 0.
inline std::string placeText(std::string_view file, uint32_t line, uint32_t column) {
  std::string text = std::string(file) + ":" + std::to_string(line);
  return column ? text + ":" + std::to_string(column) : text;
}

} // namespace tcc
