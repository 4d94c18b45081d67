// Chooses the next token from a row of logits, and turns tokens into text.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tcc::models {

struct SamplingOptions {
  double temperature = 0.8; ///< 0 takes the likeliest token
  int topK = 0;             ///< sample from the k likeliest tokens; 0: from all
  double topP = 1;          ///< sample from the likeliest tokens that together have this probability; 1: from all
  uint64_t seed = 1337;
};

/// The token at `position` of a generated text, from the logits [vocabulary] of the position before. A pure function of
/// its arguments; among equal logits the lower id counts as likelier. Throws Error where no logit is finite, since
/// the model has diverged then; a NaN beside finite ones is never chosen.
int32_t sampleToken(std::span<const float> logits, const SamplingOptions &options, int64_t position);

/// Tokens as text for a terminal. With a vocabulary of 256 they are bytes: valid UTF-8, line feeds and tabs stay, every
/// other byte becomes "·", so that a sample cannot send control sequences. With another vocabulary, the ids.
std::string renderTokens(std::span<const int32_t> tokens, int64_t vocabulary);

} // namespace tcc::models
