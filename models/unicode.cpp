#include "models/unicode.h"
#include "frontend/quotes.h"

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <utf8proc.h>

namespace tcc::models {

namespace {

/// The longest prefix of `bytes` that is one code point (`valid`) or the beginning of one.
struct Prefix {
  size_t length;
  bool valid;
};

Prefix prefixOf(std::string_view bytes) {
  const auto at = [&](size_t i) { return i < bytes.size() ? uint8_t(bytes[i]) : uint8_t(0); };
  const uint8_t first = at(0);
  if (first < 0x80)
    return {1, true};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4)
    return {1, false};
  // The second byte's range keeps out overlong forms, surrogates and what is beyond U+10FFFF.
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < low || at(1) > high)
    return {1, false};
  for (size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xbf)
      return {i, false};
  return {length, true};
}

} // namespace

std::string validUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Prefix prefix = prefixOf(bytes);
    text += prefix.valid ? bytes.substr(0, prefix.length) : "\xef\xbf\xbd";
    bytes.remove_prefix(prefix.length);
  }
  return text;
}

CodePoint firstCodePoint(std::string_view text) {
  const auto at = [&](size_t i) { return uint32_t(uint8_t(text[i])); };
  const uint32_t first = at(0);
  if (first < 0x80)
    return {first, 1};
  if (first < 0xe0)
    return {(first & 0x1f) << 6 | (at(1) & 0x3f), 2};
  if (first < 0xf0)
    return {(first & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f), 3};
  return {(first & 0x07) << 18 | (at(1) & 0x3f) << 12 | (at(2) & 0x3f) << 6 | (at(3) & 0x3f), 4};
}

void appendUtf8(std::string &text, uint32_t codePoint) {
  const auto add = [&](uint32_t byte) { text += char(byte); };
  if (codePoint < 0x80)
    return add(codePoint);
  if (codePoint < 0x800) {
    add(0xc0 | codePoint >> 6);
  } else {
    if (codePoint < 0x10000) {
      add(0xe0 | codePoint >> 12);
    } else {
      add(0xf0 | codePoint >> 18);
      add(0x80 | (codePoint >> 12 & 0x3f));
    }
    add(0x80 | (codePoint >> 6 & 0x3f));
  }
  add(0x80 | (codePoint & 0x3f));
}

std::string normalizedUtf8(std::string_view text, std::string_view form) {
  int options = 0;
  if (form == "NFC")
    options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  else if (form == "NFD")
    options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  else if (form == "NFKC")
    options = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  else if (form == "NFKD")
    options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  else
    throw Error(fmt::format("normalisation {} is unknown, NFC, NFD, NFKC and NFKD are supported", inQuotes(form)));
  utf8proc_uint8_t *result = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                                               utf8proc_ssize_t(text.size()), &result, utf8proc_option_t(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
  if (length < 0)
    throw Error(fmt::format("a text of {} bytes cannot be normalised: {}", text.size(), utf8proc_errmsg(length)));
  return {reinterpret_cast<const char *>(result), size_t(length)};
}

} // namespace tcc::models
