// A byte-level BPE tokenizer from a Hugging Face folder, equal to the `tokenizers` package.
#pragma once
#include "models/byte_pairs.h"
#include "models/text_pattern.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

class Tokenizer {
public:
  /// From `folder`/tokenizer.json, or vocab.json and merges.txt, whose splitting is GPT-2's. Throws Error naming
  /// the file for damaged ones, vocabularies with holes, and kinds that are not here (byte fallback as Llama 2's,
  /// Unigram, WordPiece, unknown normalizers and splitters) by their names.
  explicit Tokenizer(const std::string &folder);

  /// Whether `folder` holds such files.
  static bool isIn(const std::string &folder);
  /// The text of a tokenizer.json that is the vocab.json and merges.txt of `folder`.
  static std::string jsonOfVocabulary(const std::string &folder);

  /// The tokens of any bytes. Each maximal part that is no UTF-8 counts as U+FFFD. Special tokens in the text are
  /// found; none is added.
  std::vector<int32_t> encode(std::string_view bytes) const;
  /// The bytes of some tokens, which may end within a character. Ids without a token are skipped.
  std::string decode(std::span<const int32_t> ids) const;

  /// One more than the largest id.
  int64_t vocabulary() const { return size; }
  /// The token that stands between texts (<|endoftext|>, <|begin_of_text|>, …), where there is one.
  std::optional<int32_t> startOfText() const;
  /// The id of a token that is found in texts as it is, or nothing.
  std::optional<int32_t> addedId(std::string_view content) const;
  /// Whether token b is byte b, and there are no others.
  bool isOfBytes() const;
  /// A checksum that differs for different tokenizers.
  const std::string &fingerprint() const { return checksum; }

private:
  struct Added {
    std::string content;
    int32_t id;
    bool normalized;
  };
  struct Reader;

  void readTokenizerJson(const std::string &path);
  void readVocabulary(const std::string &folder);
  void encodePlain(std::string_view text, std::vector<int32_t> &ids) const;
  /// Calls plain(part) and token(id) for the parts of `text` between and at added tokens, the longest first at each
  /// place.
  template <typename Plain, typename Token>
  void splitAtAdded(std::string_view text, bool normalized, Plain plain, Token token) const;

  int64_t size = 0;
  std::string checksum;
  std::vector<Added> added; // longest first
  std::vector<std::string> normalizers;
  std::vector<TextPattern> patterns; // each splits the pieces of the one before
  bool prefixSpace = false;
  std::unique_ptr<BytePairs> pairs;
};

} // namespace tcc::models
