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
/// Byte of such a character, -1 for another code point.
int byteOfCharacter(uint32_t codePoint);

class BytePairs {
public:
  /// `tokens` in their order of ids, written in byteCharacters; `merges` name two tokens each, most urgent first.
  /// `where` stands before errors: throws Error where a byte has no token, a merge's part or result is none, or a
  /// token stands twice. With `wholeFirst` a piece that is a token becomes it, whatever its merges say.
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
  std::unordered_map<std::string, int32_t> whole; // bytes to id, filled where wholeFirst
  std::array<int32_t, 256> ofByte;
  std::unordered_map<uint64_t, Merge> merges;
};

} // namespace tcc::models
