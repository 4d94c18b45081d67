#include "models/tokenizer_training.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/byte_pairs.h"
#include "models/checkpoint.h"
#include "models/text_pattern.h"
#include "models/tokenizer.h"
#include "models/tokenizer_json.h"
#include "models/unicode.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <queue>
#include <unordered_map>

namespace tcc::models {

namespace {

constexpr std::string_view separator = "<|endoftext|>";

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair &pair) const {
    return std::hash<uint64_t>()(uint64_t(uint32_t(pair.first)) << 32 | uint32_t(pair.second));
  }
};

//===- pieces --------------------------------------------------------------------------------------------------===//

bool isPlain(char c) {
  return c > ' ' && c < 0x7f;
}

/// Where `text` may be cut from about `length` bytes on without another division into pieces: after a line's end that
/// is the only white space there.
size_t cutBehind(std::string_view text, size_t length) {
  for (size_t at = length; at + 1 < text.size(); ++at)
    if (text[at] == '\n' && isPlain(text[at - 1]) && isPlain(text[at + 1]))
      return at + 1;
  return text.size();
}

/// How often each piece occurs in `text` (valid UTF-8).
std::unordered_map<std::string, int64_t> countPieces(std::string_view text) {
  const TextPattern pattern(gpt2Pattern, "GPT-2's pattern");
  constexpr size_t portion = size_t(1) << 22; // bounds the list of pieces
  std::unordered_map<std::string, int64_t> counts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
    while (!part.empty()) {
      const size_t length = cutBehind(part, portion);
      for (const std::string_view piece : pattern.pieces(part.substr(0, length)))
        ++counts[std::string(piece)];
      part.remove_prefix(length);
    }
  }
  return counts;
}

//===- merges --------------------------------------------------------------------------------------------------===//

class Training {
public:
  explicit Training(const std::unordered_map<std::string, int64_t> &pieces) {
    std::array<std::string, 256> alphabet = byteCharacters();
    std::sort(alphabet.begin(), alphabet.end()); // UTF-8 sorts by code points
    tokens.emplace_back(separator);
    tokens.insert(tokens.end(), alphabet.begin(), alphabet.end());
    for (size_t i = 0; i < tokens.size(); ++i)
      ids.emplace(tokens[i], int32_t(i));
    for (const auto &[piece, count] : pieces) {
      Word &word = words.emplace_back(Word{{}, count});
      for (const char byte : piece)
        word.symbols.push_back(ids.at(byteCharacters()[uint8_t(byte)]));
    }
    for (size_t word = 0; word < words.size(); ++word)
      for (size_t i = 0; i + 1 < words[word].symbols.size(); ++i)
        count({words[word].symbols[i], words[word].symbols[i + 1]}, 1, word);
    enqueue();
  }

  void run(int64_t size) {
    while (int64_t(tokens.size()) < size && !queue.empty()) {
      Candidate best = queue.top();
      queue.pop();
      if (const int64_t now = counts[best.pair]; now != best.count) { // other merges took some
        best.count = now;
        if (now > 0)
          queue.push(std::move(best));
        continue;
      }
      const std::string token = tokens[size_t(best.pair.first)] + tokens[size_t(best.pair.second)];
      const auto [at, isNew] = ids.emplace(token, int32_t(tokens.size()));
      if (isNew)
        tokens.push_back(token);
      merges.push_back({tokens[size_t(best.pair.first)], tokens[size_t(best.pair.second)]});
      for (const size_t word : best.words)
        merge(word, best.pair, at->second);
      enqueue();
    }
  }

  std::vector<std::string> tokens;
  std::vector<std::array<std::string, 2>> merges;

private:
  struct Word {
    std::vector<int32_t> symbols;
    int64_t count;
  };
  struct Candidate {
    Pair pair;
    int64_t count;
    std::vector<size_t> words;
    bool operator<(const Candidate &other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  std::unordered_map<std::string, int32_t> ids;
  std::vector<Word> words;
  std::unordered_map<Pair, int64_t, PairHash> counts;
  std::unordered_map<Pair, std::vector<size_t>, PairHash> fresh; // pairs that grew, and in which words
  std::priority_queue<Candidate> queue;

  void count(Pair pair, int sign, size_t word) {
    counts[pair] += sign * words[word].count;
    if (sign < 0)
      return;
    std::vector<size_t> &where = fresh[pair];
    if (where.empty() || where.back() != word)
      where.push_back(word);
  }

  void enqueue() {
    for (auto &[pair, where] : fresh)
      if (const int64_t now = counts[pair]; now > 0)
        queue.push({pair, now, std::move(where)});
    fresh.clear();
  }

  void merge(size_t number, Pair pair, int32_t replacement) {
    const std::vector<int32_t> old = std::move(words[number].symbols);
    std::vector<int32_t> made;
    for (size_t i = 0; i < old.size(); ++i) {
      if (i + 1 == old.size() || Pair(old[i], old[i + 1]) != pair) {
        made.push_back(old[i]);
        continue;
      }
      if (!made.empty()) {
        count({made.back(), pair.first}, -1, number);
        count({made.back(), replacement}, 1, number);
      }
      if (i + 2 < old.size()) {
        count({pair.second, old[i + 2]}, -1, number);
        count({replacement, old[i + 2]}, 1, number);
      }
      made.push_back(replacement);
      ++i;
    }
    words[number].symbols = std::move(made);
  }
};

} // namespace

int64_t trainTokenizer(const std::string &folder, std::string_view text, int64_t size) {
  if (Tokenizer::isIn(folder))
    throw Error(fmt::format("{}: there is a tokenizer already; it is used without --train-tokenizer", folder));
  prepareFolder(folder);
  Training training(countPieces(validUtf8(text)));
  training.run(size);
  AtomicFile file((std::filesystem::path(folder) / "tokenizer.json").string());
  file.write(tokenizerJson(training.tokens, training.merges, {std::string(separator)}));
  file.commit();
  return int64_t(training.tokens.size());
}

} // namespace tcc::models
