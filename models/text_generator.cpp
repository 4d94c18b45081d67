#include "models/text_generator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// With `inputs`; a function whose arguments always have the same shapes is traced once.
FunctionOptions named(FunctionOptions function, std::vector<std::string> inputs, bool isTracedOnce) {
  function.inputs = std::move(inputs);
  function.outputs = {"logits"};
  function.frozen = isTracedOnce;
  return function;
}

/// Attention multiplies keys and values of this type.
DType cachedType(const FunctionOptions &function) {
  return function.products == DType::bf16 ? DType::bf16 : DType::f32;
}

/// A prompt's tokens are padded to one of few lengths, so that few functions are compiled for many prompts.
int64_t paddedLength(int64_t tokens, int64_t sequence) {
  constexpr int64_t shortest = 16;
  return std::min(sequence, std::max(shortest, int64_t(std::bit_ceil(uint64_t(tokens)))));
}

Array one(int64_t value, Shape shape) {
  const auto narrow = int32_t(value);
  return Array::of(std::span(&narrow, 1), std::move(shape));
}

/// Calls `function`, compiled before, and adds one token and the call's seconds.
Array timed(Function &function, const Array &a, const Array &b, int64_t &tokens, double &seconds) {
  const Array arguments[] = {a, b};
  function.prepare(arguments);
  const auto start = std::chrono::steady_clock::now();
  Array logits = function.call(arguments)[0];
  logits.rawForReading(); // waits for a device
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++tokens;
  return logits;
}

std::string rate(int64_t tokens, double seconds) {
  return fmt::format("{} token{} in {:.3f} s, {:.1f} tokens/s", tokens, tokens == 1 ? "" : "s", seconds,
                     double(tokens) / seconds);
}

} // namespace

std::string GenerationTimes::text() const {
  std::string text =
      fmt::format("prompt of {} token{} in {:.3f} s", promptTokens, promptTokens == 1 ? "" : "s", promptSeconds);
  if (cachedTokens > 0)
    text += "; " + rate(cachedTokens, cachedSeconds);
  if (wholeTokens > 0)
    text += fmt::format("; {} from the whole context", rate(wholeTokens, wholeSeconds));
  return text;
}

TextGenerator::TextGenerator(const Model &model, int64_t sequence, FunctionOptions function, bool caches)
    : model(model), sequence(sequence), function(function),
      cache(caches ? std::optional(KeyValueCache(model.config(), sequence, cachedType(function))) : std::nullopt),
      wholeContext(compile(
          "next_logits", [model](Tensor tokens, Tensor last) { return modelNextLogits(model, tokens, last); },
          named(function, {"tokens", "last"}, true))),
      beginning(compile(
          "read_prompt",
          [model, cache = cache](Tensor tokens, Tensor count) { return modelNextLogits(model, *cache, tokens, count); },
          named(function, {"tokens", "count"}, false))) {}

/// The function for a token whose attention reads so many rows of the cache.
Function &TextGenerator::nextWith(int64_t rows) {
  const auto known = next.find(rows);
  if (known != next.end())
    return known->second;
  Function made = compile(
      "next_token",
      [model = model, cache = cache, rows](Tensor token, Tensor position) {
        return modelGoOn(model, *cache, token, position, rows);
      },
      named(function, {"token", "position"}, true));
  return next.emplace(rows, std::move(made)).first->second;
}

/// The logits after the text's last token. The cache has the earlier tokens, unless the text is the prompt.
Array TextGenerator::logitsAfter(std::span<const int32_t> text, bool isPrompt) {
  const auto length = int64_t(text.size());
  const bool fits = cache && length <= sequence;
  if (fits && !isPrompt)
    return timed(nextWith(cache->rowsRead(length)), one(text.back(), {1, 1}), one(length - 1, {1}), spent.cachedTokens,
                 spent.cachedSeconds);
  const std::span<const int32_t> seen = text.last(size_t(std::min(length, sequence)));
  // These tokens stand at the front; attention is causal, so what comes after them is never seen.
  Array tokens({1, fits ? paddedLength(length, sequence) : sequence}, DType::i32);
  std::ranges::copy(seen, tokens.data<int32_t>().begin());
  int64_t prompts = 0;
  int64_t &counted = isPrompt ? prompts : spent.wholeTokens;
  double &seconds = isPrompt ? spent.promptSeconds : spent.wholeSeconds;
  if (isPrompt)
    spent.promptTokens = int64_t(seen.size());
  return fits ? timed(beginning, tokens, one(length, {1}), counted, seconds)
              : timed(wholeContext, tokens, one(int64_t(seen.size()) - 1, {1}), counted, seconds);
}

std::vector<int32_t> TextGenerator::generate(std::span<const int32_t> prompt, int64_t count,
                                             const SamplingOptions &sampling,
                                             const std::function<bool(std::span<const int32_t>)> &ends) {
  assert(!prompt.empty());
  spent = {};
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < count; ++i) {
    const Array logits = logitsAfter(text, i == 0);
    text.push_back(sampleToken(logits.read<float>(), sampling, i));
    if (ends && ends(std::span(text).subspan(prompt.size())))
      break;
  }
  text.erase(text.begin(), text.begin() + std::ptrdiff_t(prompt.size()));
  return text;
}

} // namespace tcc::models
