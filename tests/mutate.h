// Damaged copies of files, for tests that no reader crashes or believes them. TCC_MUTATIONS asks for more rounds.
#pragma once
#include <cstdlib>
#include <random>
#include <string>

namespace tcc::test {

inline int mutationRounds(int usual) {
  const char *text = std::getenv("TCC_MUTATIONS");
  return text ? std::atoi(text) : usual;
}

/// One to four changes at random places: a bit, a byte, a number that is as large as it gets, a piece cut out, doubled
/// or taken from elsewhere, or the end cut off.
inline std::string mutated(const std::string &original, std::mt19937 &random) {
  std::string text = original;
  auto below = [&](size_t limit) { return limit == 0 ? 0 : random() % limit; };
  static const std::string pieces[] = {"18446744073709551615",
                                       "-1",
                                       "1e999",
                                       "null",
                                       "{}",
                                       "[",
                                       "\"",
                                       "\\u0000",
                                       "9223372036854775807",
                                       std::string(8, '\xff'),
                                       std::string(4, '\0')};
  for (size_t left = 1 + below(4); left > 0; --left) {
    size_t at = below(text.size() + 1), length = below(16);
    switch (below(7)) {
    case 0:
      if (at < text.size())
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      if (at < text.size())
        text[at] = static_cast<char>(random());
      break;
    case 2:
      text.insert(at, pieces[below(std::size(pieces))]);
      break;
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, text.substr(below(text.size() + 1), length));
      break;
    case 5: {
      const std::string &piece = pieces[below(std::size(pieces))];
      text.replace(at, piece.size(), piece);
      break;
    }
    default:
      if (below(4) == 0)
        text.resize(at);
    }
  }
  return text;
}

} // namespace tcc::test
