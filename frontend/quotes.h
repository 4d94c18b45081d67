// What is said of a bad file, a bad value or a failed write: Error, and bytes of a file as they may be shown.
#pragma once
#include "frontend/error.h"
#include <string>
#include <string_view>

namespace tcc {

/// `text` between back quotes, safe to print: control and non-ASCII bytes as \xNN, at most 80 bytes of it.
std::string inQuotes(std::string_view text);

} // namespace tcc
