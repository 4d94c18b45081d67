#include "models/text_pattern.h"
#include "frontend/quotes.h"
#include "models/unicode.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <mutex>
#include <oniguruma.h>
#include <optional>

namespace tcc::models {

namespace {

constexpr unsigned long retryLimit = 10'000'000;

std::string message(int code, OnigErrorInfo *info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = info ? onig_error_code_to_str(text, code, info) : onig_error_code_to_str(text, code);
  return {reinterpret_cast<const char *>(text), size_t(length)};
}

/// Code points that are of another kind (letter, number, symbol, …) in the `tokenizers` package than in
/// Oniguruma 6.9.8, and one that is of that kind in both and as long in UTF-8.
struct StandIn {
  uint32_t first, last, known;
};
constexpr StandIn standIns[] = {
#include "models/unicode_stand_ins.inc"
};

/// `text` (valid UTF-8) with stand-ins, so that it is matched as the package matches it; nothing where it needs none.
std::optional<std::string> withStandIns(std::string_view text) {
  std::optional<std::string> changed;
  for (size_t at = 0; at < text.size();) {
    if (uint8_t(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const auto [value, length] = firstCodePoint(text.substr(at));
    const StandIn *entry = std::ranges::lower_bound(standIns, value, {}, &StandIn::last);
    if (entry != std::end(standIns) && entry->first <= value) {
      if (!changed)
        changed = text;
      std::string known;
      appendUtf8(known, entry->known);
      changed->replace(at, length, known);
    }
    at += length;
  }
  return changed;
}

const OnigUChar *bytesOf(std::string_view text) {
  return reinterpret_cast<const OnigUChar *>(text.data());
}

} // namespace

struct TextPattern::Regex {
  regex_t *value = nullptr;
  ~Regex() {
    if (value)
      onig_free(value);
  }
};

TextPattern::TextPattern(const std::string &pattern, const std::string &where) : where(where) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_retry_limit_in_match(retryLimit);
    onig_set_retry_limit_in_search(0); // of one search over a whole text: no limit beside each match's
  });
  auto made = std::make_shared<Regex>();
  OnigErrorInfo info;
  const int code = onig_new(&made->value, bytesOf(pattern), bytesOf(pattern) + pattern.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL)
    throw Error(fmt::format("{}: pattern {}: {}", where, inQuotes(pattern), message(code, &info)));
  regex = std::move(made);
}

std::vector<std::string_view> TextPattern::pieces(std::string_view text) const {
  std::vector<std::string_view> result;
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion *)> region(
      onig_region_new(), [](OnigRegion *region) { onig_region_free(region, 1); });
  const std::optional<std::string> known = withStandIns(text);
  const OnigUChar *start = bytesOf(known ? *known : text), *end = start + text.size();
  size_t done = 0; // pieces up to here are made
  for (size_t from = 0; from < text.size();) {
    const int at = onig_search(regex->value, start, end, start + from, end, region.get(), ONIG_OPTION_NONE);
    if (at == ONIG_MISMATCH)
      break;
    if (at < 0)
      throw Error(fmt::format("{}: splitting a text at byte {}: {}", where, from, message(at)));
    const size_t first = size_t(region->beg[0]), last = size_t(region->end[0]);
    if (first > done)
      result.push_back(text.substr(done, first - done));
    if (last > first) {
      result.push_back(text.substr(first, last - first));
      done = last;
      from = last;
    } else { // an empty match cuts nothing off
      done = first;
      from = first + 1;
      while (from < text.size() && (uint8_t(text[from]) & 0xc0) == 0x80)
        ++from;
    }
  }
  if (done < text.size())
    result.push_back(text.substr(done));
  return result;
}

} // namespace tcc::models
