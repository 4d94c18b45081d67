// Training data: a file of tokens, memory-mapped, and the batches that a step reads from it.
#pragma once
#include "models/files.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tcc::models {

enum class TokenFormat {
  Text,        ///< every byte is a token
  RawUint16,   ///< nanoGPT: extension .bin, uint16, no header
  ShardUint16, ///< llm.c: header magic 20240520, version 1, then uint16
  ShardUint32, ///< llm.c for Llama 3: header magic 20240801, version 7, then uint32
};

/// "text", "uint16 tokens", …, for messages.
std::string_view describe(TokenFormat format);

/// The tokens of one file. The format is taken from the header (llm.c's magic number), else from the extension
/// (`.bin` is nanoGPT's); everything else is text.
class TokenSource {
public:
  /// Opens `path` for a model with `vocabulary` token ids. Throws InputError for a file that is missing, empty, not a
  /// regular file, truncated, with a header that disagrees with its size, or with a token outside [0, vocabulary).
  /// Tokens of files up to 512 MiB are all checked here, those of larger files when a batch reads them.
  TokenSource(const std::string &path, int64_t vocabulary);

  const std::string &path() const { return file.path(); }
  TokenFormat format() const { return tokenFormat; }
  int64_t vocabulary() const { return vocabularySize; }
  /// Number of tokens.
  int64_t size() const { return tokenCount; }

  /// Copies tokens[first : first + out.size()]. The range must lie within the file (unchecked beyond an assertion);
  /// throws InputError for a token outside the vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;

  /// Tells contents apart wherever the file lies: a checksum of format, number and tokens; of a file above 512 MiB, of
  /// 512 parts of 1 MiB.
  std::string fingerprint() const;

private:
  void readHeader();
  void checkAll() const;
  [[noreturn]] void failOutside(int64_t position, uint32_t token) const;

  MappedFile file;
  TokenFormat tokenFormat = TokenFormat::Text;
  int64_t vocabularySize;
  int64_t tokenCount = 0;
  int64_t firstByte = 0;
};

enum class Order {
  Random,     ///< each row starts at a random token
  Sequential, ///< step i reads tokens[i*B*T : (i+1)*B*T + 1]
};

/// Tokens of a source: first, first + 1, …
struct TokenRange {
  int64_t first = 0, count = 0;
};

/// A source in two: what is trained on, and the last `share` of it (at least one batch of B x T) to evaluate. Throws
/// InputError where one of them would be shorter than a batch.
struct HeldOutSplit {
  TokenRange training, heldOut;
};
HeldOutSplit splitHeldOut(const TokenSource &source, double share, int64_t batch, int64_t sequence);

/// The batches of a run: a pure function of (source, range, B, T, order, seed, step), so that a run resumes at any
/// step.
class Batches {
public:
  /// `source` must outlive this object. Throws InputError where the range holds fewer than B*T + 1 tokens.
  Batches(const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence, Order order, uint64_t seed);
  /// Of the whole source.
  Batches(const TokenSource &source, int64_t batch, int64_t sequence, Order order, uint64_t seed)
      : Batches(source, {0, source.size()}, batch, sequence, order, seed) {}

  int64_t batch() const { return rows; }
  int64_t sequence() const { return columns; }
  /// Whole sequential batches in the range; Order::Sequential starts again after so many steps.
  int64_t batchesPerPass() const { return (range.count - 1) / (rows * columns); }

  /// The batch of `step` >= 0: inputs[b*T + t] and targets[b*T + t] = the token after it. Both hold B*T values.
  void read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const;

private:
  const TokenSource *source;
  TokenRange range;
  int64_t rows, columns;
  Order order;
  uint64_t seed;
};

} // namespace tcc::models
