// TextGenerator: generates text one token after another, by compiled forward functions.
#pragma once
#include "models/model.h"
#include "models/sampling.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// What making one text took; compiling is not in it.
struct GenerationTimes {
  int64_t promptTokens = 0; ///< the prompt's tokens that the model has seen
  double promptSeconds = 0; ///< the time from the prompt to the first token
  int64_t cachedTokens = 0; ///< tokens for each of which one row was computed
  double cachedSeconds = 0;
  int64_t wholeTokens = 0; ///< tokens for each of which the whole context was computed again
  double wholeSeconds = 0;

  /// "prompt of 3 tokens in 0.012 s; 97 tokens in 0.21 s, 461.9 tokens/s".
  std::string text() const;
};

/// The prompt is one pass. Each token after it is one row of work while the text fits into the context: keys and values
/// of its tokens are kept (KeyValueCache). A longer text moves through the context, so that every token's position
/// changes, and with it every key: each of its tokens is computed from the whole context.
class TextGenerator {
public:
  /// Rows of `sequence` tokens are what the model sees of the text so far. `function` holds threads, level and passes;
  /// generate() compiles where it needs a function for the first time. Without `caches` the whole context is computed
  /// for each token.
  TextGenerator(const Model &model, int64_t sequence, FunctionOptions function, bool caches = true);

  /// Up to `count` tokens that go on from `prompt` (at least one token, all within the vocabulary); fewer where `ends`
  /// says so of those made. Throws Error where the model has diverged.
  std::vector<int32_t> generate(std::span<const int32_t> prompt, int64_t count, const SamplingOptions &sampling,
                                const std::function<bool(std::span<const int32_t> made)> &ends = {});
  /// The times of the last generate().
  const GenerationTimes &times() const { return spent; }

private:
  Model model;
  int64_t sequence;
  FunctionOptions function;
  std::optional<KeyValueCache> cache;
  Function wholeContext, beginning;
  std::map<int64_t, Function> next; // by KeyValueCache::rowsRead()
  GenerationTimes spent;

  Function &nextWith(int64_t rows);
  Array logitsAfter(std::span<const int32_t> text, bool isPrompt);
};

} // namespace tcc::models
