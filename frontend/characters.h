// Which characters the words and names of .graph text are made of.
#pragma once

namespace tcc {

inline bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Whether keywords and numbers may hold `c`, and names anywhere.
inline bool isWordCharacter(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '.';
}

/// Whether the name of a value or symbol may hold `c` after its first sign, % or @.
inline bool isNameCharacter(char c) {
  return isWordCharacter(c) || c == '-';
}

} // namespace tcc
