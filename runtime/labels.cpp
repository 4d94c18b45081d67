#include "runtime/labels.h"
#include <algorithm>
#include <vector>

namespace tcc::runtime {
namespace {

/// Words, each with the character after it: '.', '+', ':', ' ' or, at the end, 0.
struct Word {
  std::string_view text;
  char end;
  bool operator==(const Word &) const = default;
};

std::vector<Word> wordsOf(std::string_view label) {
  std::vector<Word> words;
  while (true) {
    const size_t end = label.find_first_of(".+: ");
    if (end == std::string_view::npos) {
      words.push_back({label, 0});
      return words;
    }
    words.push_back({label.substr(0, end), label[end]});
    label.remove_prefix(end + 1);
  }
}

bool isNumber(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string textOf(const std::vector<Word> &words) {
  std::string text;
  for (const Word &word : words) {
    text += word.text;
    if (word.end)
      text += word.end;
  }
  return text;
}

} // namespace

std::string labelPattern(std::string_view label) {
  std::vector<Word> words = wordsOf(label);
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i - 1].end == '.' && isNumber(words[i].text) && !isNumber(words[i - 1].text))
      words[i].text = "*";
  return textOf(words);
}

/// The same of labels without '+'.
static std::string joinedPart(std::string_view a, std::string_view b) {
  std::vector<Word> left = wordsOf(a), right = wordsOf(b);
  if (std::ranges::equal(left, right, {}, &Word::end, &Word::end)) {
    bool shared = false;
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i].text != right[i].text)
        left[i].text = "*";
      else
        shared |= left[i].text != "*";
    if (shared)
      return textOf(left);
  }
  size_t same = 0;
  while (same < std::min(left.size(), right.size()) && left.rbegin()[same] == right.rbegin()[same])
    ++same;
  if (same == 0)
    return std::string(a).ends_with(", …") ? std::string(a) : std::string(a) + ", …";
  left.erase(left.begin(), left.end() - static_cast<std::ptrdiff_t>(same));
  return (left[0].text == "*" ? "" : "*.") + textOf(left);
}

std::string joinedLabel(std::string_view a, std::string_view b) {
  constexpr std::string_view more = "+…";
  std::string joined;
  while (a != b) {
    const size_t endA = a.find('+'), endB = b.find('+');
    joined += joinedPart(a.substr(0, endA), b.substr(0, endB));
    if (endA == std::string_view::npos && endB == std::string_view::npos)
      return joined;
    if (endA == std::string_view::npos || endB == std::string_view::npos)
      return joined + std::string(more);
    a.remove_prefix(endA + 1);
    b.remove_prefix(endB + 1);
    if (std::ranges::count(a, '+') != std::ranges::count(b, '+') && a != b)
      return joined + std::string(more);
    joined += '+';
  }
  return joined + std::string(a);
}

} // namespace tcc::runtime
