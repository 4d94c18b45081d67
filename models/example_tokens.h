// Examples as tokens in memory, and the file that holds them (TokenFormat::Examples).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// The file, little-endian: 1024 bytes of header (int32 magic and version, int64 examples, int64 tokens, zeros), int64
/// ends of the examples, uint32 tokens. A token that is not to be learned has bit 31 set.
namespace example_file {
constexpr int32_t magic = 20241120, version = 1;
constexpr uint32_t notLearned = uint32_t(1) << 31;
} // namespace example_file

class ExampleTokens {
public:
  /// Adds tokens to the example at the end.
  void add(std::span<const int32_t> ids, bool learned);
  /// Ends the example. An example without tokens is dropped.
  void endExample();

  int64_t examples() const { return int64_t(ends.size()); }
  /// Number of tokens.
  int64_t size() const { return int64_t(tokens.size()); }
  int64_t learned() const { return learnedCount; }

  /// Throws Error for a failed write.
  void write(const std::string &path) const;

private:
  std::vector<uint32_t> tokens;
  std::vector<int64_t> ends;
  int64_t learnedCount = 0;
};

} // namespace tcc::models
