// Byte-pair encoding of one piece of text (Sennrich et al. 2016), over bytes written as printable characters.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tcc::models {

/// GPT-2's 256 characters for 256 bytes: printable ones stand for themselves, the others for U+0100 and up.
const std::array<std::string, 256> &byteCharacters();
/// The byte that such a character stands for; -1 for any other code point.
int byteOfCharacter(uint32_t codePoint);

class BytePairs {
public:
  /// `tokens` are in the order of their ids, written in byteCharacters(). `merges` name two tokens each; the ones to be
  /// applied first come first. If `wholeFirst` is set, a piece that is a token becomes that token, whatever its merges
  /// say. Throws Error, with `where` before it, if a byte has no token, if a part or the result of a merge is no token,
  /// or if a token stands there twice.
  BytePairs(std::vector<std::string> tokens, const std::vector<std::pair<std::string, std::string>> &merges,
            bool wholeFirst, const std::string &where);

  /// Appends the ids of `piece` (any bytes).
  void encode(std::string_view piece, std::vector<int32_t> &ids) const;
  /// The bytes of a token.
  const std::string &bytes(int32_t id) const { return bytesOf[size_t(id)]; }
  int64_t size() const { return int64_t(bytesOf.size()); }

private:
  struct Merge {
    int32_t rank, result;
  };
  const Merge *find(int32_t left, int32_t right) const;

  std::vector<std::string> bytesOf;
  std::unordered_map<std::string, int32_t> whole; // bytes to id; empty unless wholeFirst
  std::array<int32_t, 256> ofByte;
  std::unordered_map<uint64_t, Merge> merges;
};

} // namespace tcc::models
