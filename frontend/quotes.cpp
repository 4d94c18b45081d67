#include "frontend/quotes.h"

#include <fmt/format.h>

namespace tcc {

std::string inQuotes(std::string_view text) {
  constexpr size_t limit = 80;
  std::string out = "`";
  for (unsigned char c : text.substr(0, limit))
    out += c >= 0x20 && c < 0x7f ? std::string(1, char(c)) : fmt::format("\\x{:02x}", c);
  return out + (text.size() > limit ? "…`" : "`");
}

} // namespace tcc
