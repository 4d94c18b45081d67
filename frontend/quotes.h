// inQuotes: makes bytes of a file or a value safe to show in a message.
#pragma once
#include "frontend/error.h"
#include <string>
#include <string_view>

namespace tcc {

/// `text` between back quotes, safe to print: control and non-ASCII bytes as \xNN, at most 80 bytes of it.
std::string inQuotes(std::string_view text);

} // namespace tcc
