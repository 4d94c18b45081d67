// Generated text: the next token, again and again, from a compiled forward function.
#pragma once
#include "models/model.h"
#include "models/sampling.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tcc::models {

class TextGenerator {
public:
  /// Rows of `sequence` tokens are what the model sees of the text so far. `function` holds threads, level and passes;
  /// the first call of generate() compiles.
  TextGenerator(const Model &model, int64_t sequence, FunctionOptions function);

  /// Up to `count` tokens that go on from `prompt` (at least one token, all within the vocabulary); fewer where `ends`
  /// says so of those made. Throws Error where the model has diverged.
  std::vector<int32_t> generate(std::span<const int32_t> prompt, int64_t count, const SamplingOptions &sampling,
                                const std::function<bool(std::span<const int32_t> made)> &ends = {});

private:
  int64_t sequence;
  Function nextLogits;
};

} // namespace tcc::models
