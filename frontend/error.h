// The one exception: of the frontend, the command line and the models. What lies below gives runtime::Error and
// Expected.
#pragma once
#include "frontend/loc.h"
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tcc {

/// What every public function of the frontend throws. what() is "file:line:column: message" as far as the place is
/// known; the message says what was seen and then the rule: lower case, no full stop. An empty one: diagnostics have
/// said it.
class Error : public std::runtime_error {
public:
  /// Whose mistake: the command line's, that of a graph, a file, a program or a machine, or the compiler's own.
  enum class Kind : uint8_t { usage, diagnosed, internal };

  explicit Error(const std::string &message, Kind kind = Kind::diagnosed)
      : std::runtime_error(message), text(message), whose(kind) {}
  Error(const std::string &message, std::string file, uint32_t line, uint32_t column)
      : std::runtime_error(placeText(file, line, column) + ": " + message), text(message), fileName(std::move(file)),
        lineNumber(line), columnNumber(column) {}
  /// At `place`, where it is known.
  Error(const std::string &message, const Loc &place)
      : Error(place.isKnown() ? Error(message, std::string(place.file()), place.line(), place.column())
                              : Error(message)) {}

  const std::string &message() const { return text; }  ///< without the place
  const std::string &file() const { return fileName; } ///< empty when unknown
  uint32_t line() const { return lineNumber; }
  uint32_t column() const { return columnNumber; }
  Kind kind() const { return whose; }
  /// That of a program which ends with it: 2, 1 or 70.
  int exitStatus() const { return whose == Kind::usage ? 2 : whose == Kind::diagnosed ? 1 : 70; }

private:
  std::string text, fileName;
  uint32_t lineNumber = 0, columnNumber = 0;
  Kind whose = Kind::diagnosed;
};

/// A mistake of the command line.
inline Error usageError(const std::string &message) {
  return Error(message, Error::Kind::usage);
}

} // namespace tcc
