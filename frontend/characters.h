// The characters of words in .graph text.
#pragma once

namespace tcc {

inline bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Of names, keywords and numbers.
inline bool isWordCharacter(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '.';
}

} // namespace tcc
