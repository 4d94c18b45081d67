// isWordCharacter: which characters the words of .graph text are made of.
#pragma once

namespace tcc {

inline bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Whether names, keywords and numbers may hold `c`.
inline bool isWordCharacter(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '.';
}

} // namespace tcc
