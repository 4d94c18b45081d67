#include "models/text_generator.h"

#include <algorithm>
#include <cassert>

namespace tcc::models {

namespace {

FunctionOptions named(FunctionOptions function) {
  function.inputs = {"tokens", "last"};
  function.outputs = {"logits"};
  return function;
}

} // namespace

TextGenerator::TextGenerator(const Model &model, int64_t sequence, FunctionOptions function)
    : sequence(sequence),
      nextLogits(compile(
          "next_logits", [model](Tensor tokens, Tensor last) { return modelNextLogits(model, tokens, last); },
          named(std::move(function)))) {}

std::vector<int32_t> TextGenerator::generate(std::span<const int32_t> prompt, int64_t count,
                                             const SamplingOptions &sampling,
                                             const std::function<bool(std::span<const int32_t>)> &ends) {
  assert(!prompt.empty());
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  Array tokens({1, sequence}, DType::i32), last({1}, DType::i32);
  for (int64_t i = 0; i < count; ++i) {
    // The last tokens stand at the front; attention is causal, so what comes after them is never seen.
    const auto length = std::min<int64_t>(int64_t(text.size()), sequence);
    std::copy(text.end() - length, text.end(), tokens.data<int32_t>().begin());
    last.data<int32_t>()[0] = int32_t(length - 1);
    const std::vector<Array> results = nextLogits(tokens, last);
    text.push_back(sampleToken(results[0].read<float>(), sampling, i));
    if (ends && ends(std::span(text).subspan(prompt.size())))
      break;
  }
  text.erase(text.begin(), text.begin() + std::ptrdiff_t(prompt.size()));
  return text;
}

} // namespace tcc::models
