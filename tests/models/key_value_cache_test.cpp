// Text from kept keys and values beside text whose whole context is computed for each token: every kind of model, odd
// sizes, bf16, contexts that are full.
#include "models/key_value_cache.h"
#include "models/text_generator.h"
#include "runtime/executable.h"
#include "test_files.h"

#include <cmath>
#include <map>

namespace tcc::models {
namespace {

constexpr int64_t positions = 200, vocabulary = 1000;

FunctionOptions quietly(int level, DType products = DType::f32) {
  FunctionOptions options;
  options.level = level;
  options.products = products;
  options.threads = 1;
  options.checked = true;
  options.report = [](std::string_view text) {
    EXPECT_TRUE(text.starts_with("recompiled: tokens ")) << text; // prompts of other lengths
  };
  return options;
}

/// Odd sizes of each kind.
std::map<std::string, ModelConfig> kinds() {
  const Gpt2Config gpt2{.layers = 2, .heads = 5, .width = 40, .sequence = positions, .vocab = vocabulary};
  Gpt2Config separate = gpt2;
  separate.tied = false;
  separate.separate = true;
  LlamaConfig llama{.layers = 2, .heads = 6, .keyValueHeads = 2, .headSize = 10, .width = 44, .inner = 70};
  llama.sequence = positions;
  llama.vocab = vocabulary;
  llama.attentionBias = true;
  LlamaConfig qwen3 = llama;
  qwen3.kind = LlamaKind::Qwen3;
  qwen3.keyValueHeads = 1;
  return {{"gpt2", gpt2},
          {"separate", separate},
          {"llama", llama},
          {"qwen3", qwen3},
          {"modern", ModernConfig{.layers = 2, .heads = 5, .width = 60, .sequence = positions, .vocab = vocabulary}}};
}

/// Weights that make tokens differ: no logit is near another one by chance.
Model livelyModel(const ModelConfig &config) {
  Model model(config);
  model.initialize(11);
  uint64_t state = 7;
  for (const Parameter &parameter : model.parameters())
    if (parameter.shape().rank() == 2)
      for (float &value : parameter.data<float>()) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = float(double(state >> 40) / double(1 << 24) - 0.5) * 0.6f;
      }
  return model;
}

std::vector<int32_t> someTokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(int32_t((7 * i * i + 3 * i + 1) % vocabulary));
  return tokens;
}

Array tensorOf(std::span<const int32_t> values, Shape shape) {
  return Array::of(values, std::move(shape));
}
Array tensorOf(int32_t value, Shape shape) {
  return tensorOf(std::span<const int32_t>(&value, 1), std::move(shape));
}

/// Largest difference of the two, of the largest logit.
double difference(const Array &row, std::span<const float> expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(double(row.read<float>()[i]) - double(expected[i])));
    largest = std::max(largest, std::abs(double(expected[i])));
  }
  return std::isfinite(worst) ? worst / largest : INFINITY;
}

/// What a plan has beside its states that has the size of one layer's kept keys, `bytes`, and what it copies.
std::vector<std::string> copiesOf(const runtime::Plan &plan, int64_t bytes) {
  std::vector<std::string> found;
  for (const runtime::Instruction &instruction : plan.instructions)
    if (std::holds_alternative<runtime::CopyCall>(instruction.call))
      found.push_back("copy " + instruction.label);
  for (const runtime::Buffer &buffer : plan.buffers)
    if (buffer.space == runtime::Space::arena && buffer.bytes == bytes)
      found.push_back(std::to_string(buffer.bytes) + " bytes in the arena");
  return found;
}

class Caches : public testing::TestWithParam<std::string> {
protected:
  const Model model = livelyModel(kinds().at(GetParam()));

  /// A text whose first `prompt` tokens are one pass, and the others a row each, against all of it in one pass.
  void expectTheWholeTextsLogits(FunctionOptions options, int64_t prompt, int64_t padded, double tolerance) {
    const KeyValueCache cache(model.config(), positions, options.products);
    Function whole = compile("logits", [this](Tensor tokens) { return modelLogits(model, tokens); }, options);
    Function beginning = compile(
        "read_prompt",
        [this, &cache](Tensor tokens, Tensor count) { return modelNextLogits(model, cache, tokens, count); }, options);
    std::map<int64_t, Function> functions;
    const auto next = [&](int64_t rows) -> Function & {
      const auto traced = [this, &cache, rows](Tensor token, Tensor place) {
        return modelGoOn(model, cache, token, place, rows);
      };
      return functions.try_emplace(rows, compile("next_token", traced, options)).first->second;
    };
    const std::vector<int32_t> text = someTokens(positions);
    const Array expected = whole(tensorOf(text, {1, positions}))[0];
    const auto row = [&](int64_t position) {
      return expected.read<float>().subspan(size_t(position * vocabulary), size_t(vocabulary));
    };
    for (int round = 0; round < 2; ++round) { // what the text before has left there is not seen
      std::vector<int32_t> start(text.begin(), text.begin() + prompt);
      start.resize(size_t(padded), 3);
      EXPECT_LT(difference(beginning(tensorOf(start, {1, padded}), tensorOf(int32_t(prompt), {1}))[0], row(prompt - 1)),
                tolerance);
      double worst = 0;
      for (int64_t place = prompt; place < positions; place += 1)
        worst = std::max(worst, difference(next(cache.rowsRead(place + 1))(tensorOf(text[size_t(place)], {1, 1}),
                                                                           tensorOf(int32_t(place), {1}))[0],
                                           row(place)));
      EXPECT_LT(worst, tolerance);
    }
    EXPECT_EQ(functions.size(), 3u) << "64, 128 and 200 rows";
    for (auto &[rows, function] : functions) {
      EXPECT_EQ(function.counters().cache.misses, 1) << "the position is an input";
      // A row is written where it stands, and kept keys are read where they are. (In bf16 weights are cast.)
      if (options.level == 2 && options.products == DType::f32) {
        for (const int64_t bytes : {cache.keys(0).bytes(), cache.keys(0).bytes() / positions * rows})
          EXPECT_EQ(copiesOf(function.executable()->plan(), bytes), std::vector<std::string>()) << rows;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Caches, testing::Values("gpt2", "separate", "llama", "qwen3", "modern"),
                         [](const auto &info) { return info.param; });

TEST_P(Caches, rowByRowIsTheWholeText) {
  expectTheWholeTextsLogits(quietly(2), 37, 64, 1e-5);
}

TEST_P(Caches, alsoFromOneTokenAndUnfused) {
  expectTheWholeTextsLogits(quietly(0), 1, 16, 1e-5);
}

TEST_P(Caches, alsoInBf16) {
  FunctionOptions options = quietly(2, DType::bf16);
  options.passes["narrow-activations"] = false;
  expectTheWholeTextsLogits(options, 37, 64, 2e-2);
}

/// Where a target stores activations in 16 bits, they are rounded once more on their way from matmul to matmul.
TEST_P(Caches, alsoWithActivationsInBf16) {
  expectTheWholeTextsLogits(quietly(2, DType::bf16), 37, 64, 4e-2);
}

TEST_P(Caches, makeTheSameTokens) {
  const int64_t sequence = 45; // the text becomes longer
  TextGenerator kept(model, sequence, quietly(2)), whole(model, sequence, quietly(2), false);
  for (const auto &[prompt, count] : {std::pair(1, 70), {20, 25}, {44, 3}, {45, 3}, {60, 3}}) {
    const std::vector<int32_t> start = someTokens(prompt);
    for (const double temperature : {0.0, 1.0}) {
      const SamplingOptions sampling{.temperature = temperature, .seed = 3};
      const std::vector<int32_t> expected = whole.generate(start, count, sampling);
      EXPECT_EQ(kept.generate(start, count, sampling), expected) << prompt << " tokens, temperature " << temperature;
      EXPECT_EQ(whole.times().cachedTokens, 0);
      EXPECT_EQ(whole.times().wholeTokens, count - 1);
      // The first token is the prompt's; a token is cheap while the text before it fits.
      EXPECT_EQ(kept.times().cachedTokens, std::clamp<int64_t>(sequence - prompt, 0, count - 1)) << prompt;
      EXPECT_EQ(kept.times().cachedTokens + kept.times().wholeTokens, count - 1);
      EXPECT_EQ(kept.times().promptTokens, std::min<int64_t>(prompt, sequence));
    }
  }
}

TEST_P(Caches, makeTheSameTokensWhileTheyReadMore) {
  constexpr int64_t sequence = 150; // 64, 128 and 150 rows are read
  TextGenerator kept(model, sequence, quietly(2)), whole(model, sequence, quietly(2), false);
  const SamplingOptions sampling{.temperature = 1, .seed = 5};
  const std::vector<int32_t> start = someTokens(60);
  EXPECT_EQ(kept.generate(start, 92, sampling), whole.generate(start, 92, sampling));
  EXPECT_EQ(kept.times().cachedTokens, 90);
}

TEST(KeyValueCache, readsWhatIsThereUpToAPowerOfTwo) {
  const KeyValueCache cache(kinds().at("gpt2"), positions, DType::f32);
  for (const auto &[tokens, rows] : {std::pair(1, 64), {64, 64}, {65, 128}, {128, 128}, {129, 200}, {200, 200}})
    EXPECT_EQ(cache.rowsRead(tokens), rows) << tokens;
  EXPECT_EQ(KeyValueCache(kinds().at("gpt2"), 45, DType::f32).rowsRead(1), 45);
}

TEST(KeyValueCache, timesAreSaidInWords) {
  GenerationTimes times{.promptTokens = 1, .promptSeconds = 0.0125, .cachedTokens = 60, .cachedSeconds = 0.5};
  EXPECT_EQ(times.text(), "prompt of 1 token in 0.013 s; 60 tokens in 0.500 s, 120.0 tokens/s");
  times.wholeTokens = 1;
  times.wholeSeconds = 0.25;
  EXPECT_EQ(times.text(), "prompt of 1 token in 0.013 s; 60 tokens in 0.500 s, 120.0 tokens/s; 1 token in 0.250 s, 4.0 "
                          "tokens/s from the whole context");
}

} // namespace
} // namespace tcc::models
