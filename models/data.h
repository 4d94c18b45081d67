// Training data: files of tokens, memory-mapped.
#pragma once
#include "frontend/files.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

enum class TokenFormat {
  Text,        ///< every byte is a token
  RawUint16,   ///< nanoGPT: extension .bin, uint16, no header
  ShardUint16, ///< llm.c: header magic 20240520, version 1, then uint16
  ShardUint32, ///< llm.c for Llama 3: header magic 20240801, version 7, then uint32
  Examples,    ///< JSON lines as tokens (models/example_tokens.h)
};

/// "text", "uint16 tokens", …, for messages.
std::string_view describe(TokenFormat format);

/// The tokens of one file. The format is taken from the header (llm.c's magic number), else from the extension
/// (`.bin` is nanoGPT's); everything else is text.
class TokenFile {
public:
  /// Opens `path` for a model with `vocabulary` token ids. Throws Error for a file that is missing, empty, not a
  /// regular file, truncated, with a header that disagrees with its size, or with a token outside [0, vocabulary).
  /// Tokens of files up to 512 MiB are all checked here, those of larger files when a batch reads them.
  /// `source` names, for messages, the text from which a file of tokens was made; empty: there was none.
  TokenFile(const std::string &path, int64_t vocabulary, const std::string &source = {});

  const std::string &path() const { return file.path(); }
  /// What the user calls it: the text that it was made of, or its path.
  const std::string &name() const { return source.empty() ? path() : source; }
  TokenFormat format() const { return tokenFormat; }
  int64_t vocabulary() const { return vocabularySize; }
  /// Number of tokens.
  int64_t size() const { return tokenCount; }

  /// Copies tokens[first : first + out.size()]. The range must lie within the file (unchecked beyond an assertion);
  /// throws Error for a token outside the vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;
  /// The same for tokens as targets: -1 for those of examples that are not to be learned.
  void readTargets(int64_t first, std::span<int32_t> out) const;
  /// Where each example ends, in order; the format must be Examples.
  std::vector<int64_t> exampleEnds() const;

  /// A checksum of format, number and tokens, which differs for different contents, wherever the file lies. In a file
  /// above 512 MiB it covers 512 parts of 1 MiB.
  std::string fingerprint() const;

private:
  void readHeader();
  void readExamplesHeader();
  void checkAll() const;
  /// Calls visit(i, value) for the values as the file has them.
  template <typename Visit>
  void forEachValue(int64_t first, int64_t count, Visit visit) const;
  uint32_t tokenOf(uint32_t value) const;
  [[noreturn]] void failOutside(int64_t position, uint32_t token) const;

  MappedFile file;
  std::string source;
  TokenFormat tokenFormat = TokenFormat::Text;
  int64_t vocabularySize;
  int64_t tokenCount = 0;
  int64_t exampleCount = 0;
  int64_t headerEnd = 0, firstByte = 0; // between them: the ends of examples
};

/// The tokens of several files, one file after the other.
class TokenSource {
public:
  TokenSource(const std::string &path, int64_t vocabulary) : TokenSource(std::vector{path}, vocabulary) {}
  /// Throws Error for files of several formats too. At least one path is expected. `texts` name the texts that the
  /// files were made of, "" one that was made of none; there may be fewer of them than files.
  TokenSource(const std::vector<std::string> &paths, int64_t vocabulary, const std::vector<std::string> &texts = {});

  /// The first file's name, and how many there are beside it: for messages.
  std::string name() const;
  TokenFormat format() const { return files.front().format(); }
  /// Number of tokens.
  int64_t size() const { return starts.back(); }
  /// Where each file's tokens begin, and the end of the last one's.
  const std::vector<int64_t> &boundaries() const { return starts; }

  /// As TokenFile::read, across files too.
  void read(int64_t first, std::span<int32_t> out) const;
  /// As TokenFile::readTargets and exampleEnds.
  void readTargets(int64_t first, std::span<int32_t> out) const;
  std::vector<int64_t> exampleEnds() const;
  /// Differs for different contents: the fingerprint of the only file, or one over those of all files.
  std::string fingerprint() const;

private:
  template <typename Read>
  void readAcross(int64_t first, std::span<int32_t> out, Read read) const;

  std::vector<TokenFile> files;
  std::vector<int64_t> starts;
};

/// `count` tokens of a source, from number `first` on.
struct TokenRange {
  int64_t first = 0, count = 0;
};

} // namespace tcc::models
