// The one way in which this folder reports a bad file, a bad value or a failed write to the user.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace tcc::models {

/// A user's error: the text is complete (file and position first where there is one, then what was seen, then the
/// rule; lower case, no full stop). The program prints it after "error: " and exits with status 1.
class InputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// `text` between back quotes, safe to print: control and non-ASCII bytes as \xNN, at most 80 bytes of it.
std::string inQuotes(std::string_view text);

} // namespace tcc::models
