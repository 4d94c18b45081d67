#include "models/byte_pairs.h"
#include "frontend/quotes.h"
#include "models/unicode.h"

#include <fmt/format.h>
#include <queue>

namespace tcc::models {

namespace {

bool isPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// Bytes of a token; characters that stand for no byte stay as they are (added tokens).
std::string bytesOfToken(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const CodePoint point = firstCodePoint(token);
    const int byte = byteOfCharacter(point.value);
    bytes += byte >= 0 ? std::string(1, char(byte)) : std::string(token.substr(0, point.length));
    token.remove_prefix(point.length);
  }
  return bytes;
}

uint64_t pairKey(int32_t left, int32_t right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

} // namespace

const std::array<std::string, 256> &byteCharacters() {
  static const std::array<std::string, 256> table = [] {
    std::array<std::string, 256> characters;
    uint32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte)
      appendUtf8(characters[size_t(byte)], isPrintable(byte) ? uint32_t(byte) : next++);
    return characters;
  }();
  return table;
}

int byteOfCharacter(uint32_t codePoint) {
  static const std::unordered_map<uint32_t, int> table = [] {
    std::unordered_map<uint32_t, int> bytes;
    for (int byte = 0; byte < 256; ++byte)
      bytes[firstCodePoint(byteCharacters()[size_t(byte)]).value] = byte;
    return bytes;
  }();
  const auto found = table.find(codePoint);
  return found == table.end() ? -1 : found->second;
}

BytePairs::BytePairs(std::vector<std::string> tokens, const std::vector<std::pair<std::string, std::string>> &pairs,
                     bool wholeFirst, const std::string &where) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!ids.emplace(tokens[id], int32_t(id)).second)
      throw Error(fmt::format("{}: token {} stands twice", where, inQuotes(tokens[id])));
  const auto idOf = [&](const std::string &token, size_t merge) {
    const auto found = ids.find(token);
    if (found == ids.end())
      throw Error(fmt::format("{}: merge {} needs the token {}, which is not in the vocabulary", where, merge + 1,
                              inQuotes(token)));
    return found->second;
  };
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(byteCharacters()[size_t(byte)]);
    if (found == ids.end())
      throw Error(fmt::format("{}: byte {} has no token, a byte-level vocabulary has one for each", where, byte));
    ofByte[size_t(byte)] = found->second;
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const int32_t left = idOf(pairs[i].first, i), right = idOf(pairs[i].second, i);
    merges[pairKey(left, right)] = {int32_t(i), idOf(pairs[i].first + pairs[i].second, i)};
  }
  for (const std::string &token : tokens)
    bytesOf.push_back(bytesOfToken(token));
  if (wholeFirst)
    for (size_t id = 0; id < bytesOf.size(); ++id)
      whole.emplace(bytesOf[id], int32_t(id));
}

const BytePairs::Merge *BytePairs::find(int32_t left, int32_t right) const {
  const auto found = merges.find(pairKey(left, right));
  return found == merges.end() ? nullptr : &found->second;
}

void BytePairs::encode(std::string_view piece, std::vector<int32_t> &ids) const {
  if (const auto found = whole.find(std::string(piece)); found != whole.end()) {
    ids.push_back(found->second);
    return;
  }
  // A list of symbols linked by index, and a heap of the pairs that can merge: lowest rank first, then leftmost. Pairs
  // whose symbols have merged since are passed over.
  struct Symbol {
    int32_t id;
    int64_t previous, next;
  };
  struct Candidate {
    int32_t rank, left, right, result;
    int64_t at;
    bool operator<(const Candidate &other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const auto count = int64_t(piece.size());
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (int64_t i = 0; i < count; ++i)
    symbols.push_back({ofByte[uint8_t(piece[size_t(i)])], i - 1, i + 1 < count ? i + 1 : -1});
  std::priority_queue<Candidate> heap;
  const auto consider = [&](int64_t at) {
    if (at < 0 || symbols[size_t(at)].next < 0)
      return;
    const int32_t left = symbols[size_t(at)].id, right = symbols[size_t(symbols[size_t(at)].next)].id;
    if (const Merge *merge = find(left, right))
      heap.push({merge->rank, left, right, merge->result, at});
  };
  for (int64_t i = 0; i < count; ++i)
    consider(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol &left = symbols[size_t(best.at)];
    if (left.id != best.left || left.next < 0 || symbols[size_t(left.next)].id != best.right)
      continue;
    Symbol &right = symbols[size_t(left.next)];
    left.id = best.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0)
      symbols[size_t(left.next)].previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
  for (int64_t i = 0; i >= 0 && i < count; i = symbols[size_t(i)].next)
    ids.push_back(symbols[size_t(i)].id);
}

} // namespace tcc::models
