#include "frontend/markup.h"

namespace tcc {

std::string markupText(std::string_view text) {
  std::string out;
  for (const char c : text)
    switch (c) {
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '&':
      out += "&amp;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += static_cast<unsigned char>(c) < ' ' && c != '\n' ? ' ' : c;
    }
  return out;
}

} // namespace tcc
