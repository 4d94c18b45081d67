// UTF-8 as tokenizers want it: always valid, normalised where they ask for it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tcc::models {

/// `bytes` with one U+FFFD in place of each maximal invalid part (Unicode 15, section 3.9: "substitution of maximal
/// subparts", as Python's and WHATWG's decoders do).
std::string validUtf8(std::string_view bytes);

/// The code point at the front of valid UTF-8, and its length in bytes.
struct CodePoint {
  uint32_t value;
  size_t length;
};
CodePoint firstCodePoint(std::string_view text);
void appendUtf8(std::string &text, uint32_t codePoint);

/// "NFC", "NFD", "NFKC" or "NFKD" of valid UTF-8. Throws Error for another name or where there is no memory.
std::string normalizedUtf8(std::string_view text, std::string_view form);

} // namespace tcc::models
