// Error: the one exception of the frontend, the command line and the models. The folders below return runtime::Error
// and runtime::Expected instead.
#pragma once
#include "frontend/loc.h"
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tcc {

/// What every public function of the frontend throws. what() is "file:line:column: message" as far as the place is
/// known. The message says what was seen and then the rule, in lower case, without a full stop. It is empty where
/// printed diagnostics have already said what is wrong.
class Error : public std::runtime_error {
public:
  /// Whose mistake it is. usage: the command line's. diagnosed: a graph's, file's, program's or machine's. internal:
  /// the compiler's own.
  enum class Kind : uint8_t { usage, diagnosed, internal };

  explicit Error(const std::string &message, Kind kind = Kind::diagnosed)
      : std::runtime_error(message), text(message), whose(kind) {}
  Error(const std::string &message, std::string file, uint32_t line, uint32_t column)
      : std::runtime_error(placeText(file, line, column) + ": " + message), text(message), fileName(std::move(file)),
        lineNumber(line), columnNumber(column) {}
  /// An error at `place`, if that is known.
  Error(const std::string &message, const Loc &place)
      : Error(place.isKnown() ? Error(message, std::string(place.file()), place.line(), place.column())
                              : Error(message)) {}

  const std::string &message() const { return text; }  ///< without the place
  const std::string &file() const { return fileName; } ///< empty when unknown
  uint32_t line() const { return lineNumber; }
  uint32_t column() const { return columnNumber; }
  Kind kind() const { return whose; }
  /// The exit status of a program that ends with this error: 2, 1 or 70, in the order of the kinds.
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
