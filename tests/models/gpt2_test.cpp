// The compiled GPT-2 against plain loops in double precision: loss, gradients, the training step, generated text.
#include "gpt2_oracle.h"
#include "models/counter_random.h"
#include "models/text_generator.h"
#include "runtime/executable.h"
#include "tests/models/training_step.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace tcc::models {
namespace {

constexpr Gpt2Config tiny{.layers = 2, .heads = 2, .width = 12, .sequence = 8, .vocab = 11};
constexpr int64_t batch = 2, sequence = 6; // shorter than the position table

/// Weights of the size that training reaches, so that nothing is close to linear and no bias is zero.
Model livelyModel(uint64_t seed = 7) {
  Model model(tiny);
  for (const Parameter &parameter : model.parameters()) {
    std::span<float> values = parameter.data<float>();
    const bool scale = parameter.name().find("ln_") != std::string::npos && parameter.name().ends_with("weight");
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float((scale ? 1 : 0) + 0.25 * normalBits(randomBits(seed, streamOf(parameter.name()), i)));
  }
  return model;
}

OracleWeights oracleWeights(const Model &model) {
  OracleWeights weights;
  for (const NamedTensor &tensor : model.named())
    weights[tensor.name] = {tensor.values.begin(), tensor.values.end()};
  return weights;
}

struct Batch {
  std::vector<int32_t> tokens, targets;
  Array tokenArray, targetArray;
};

Batch someBatch(uint64_t seed = 1) {
  Batch result;
  for (uint64_t i = 0; i < batch * sequence; ++i) {
    result.tokens.push_back(int32_t(boundedBits(randomBits(seed, 1, i), tiny.vocab)));
    result.targets.push_back(int32_t(boundedBits(randomBits(seed, 2, i), tiny.vocab)));
  }
  result.tokenArray = Array::of(std::span<const int32_t>(result.tokens), {batch, sequence});
  result.targetArray = Array::of(std::span<const int32_t>(result.targets), {batch, sequence});
  return result;
}

double oracleLoss(const OracleWeights &weights, const Batch &data) {
  return gpt2OracleLoss(tiny, weights, data.tokens, data.targets, sequence);
}

/// One thread by default: steps as small as these only wait for a second one.
FunctionOptions atLevel(int level, int threads = 1) {
  FunctionOptions options;
  options.level = level;
  options.threads = threads;
  options.checked = true;
  options.report = [](std::string_view) {};
  return options;
}

std::vector<Array> compiledGradients(const Model &model, const Batch &data, int level) {
  Function gradients = compile(
      "gradients", [model](Tensor tokens, Tensor targets) { return modelGradients(model, tokens, targets); },
      atLevel(level));
  return gradients(data.tokenArray, data.targetArray);
}

struct TrainingStep {
  Model model;
  int threads = 1;
  optim::Adamw optimizer{model.parameters()};
  Function function = test::compiledTrainingStep(model, optimizer, atLevel(2, threads));

  explicit TrainingStep(Model model, int threads = 1) : model(std::move(model)), threads(threads) {}
  TrainingStep(const TrainingStep &) = delete;

  std::pair<double, double> operator()(const Batch &data, double lr, int step) {
    const std::vector<Array> results = function(data.tokenArray, data.targetArray, float(lr), float(step));
    return {results[0].item(), results[1].item()};
  }
};

TEST(Gpt2, parametersAreTheListsOwn) {
  const Model model(tiny);
  const std::vector<ParameterSpec> list = gpt2Parameters(tiny);
  ASSERT_EQ(model.parameters().size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(model.parameters()[i].name(), list[i].name);
    EXPECT_EQ(model.parameters()[i].shape(), Shape(list[i].shape));
    EXPECT_EQ(model.parameters()[i].shape().rank() >= 2, list[i].decays) << "the optimizer decays by rank";
  }
}

class Gpt2AtLevel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(O, Gpt2AtLevel, testing::Values(0, 2));

TEST_P(Gpt2AtLevel, lossIsTheOracles) {
  const Model model = livelyModel();
  Function loss = compile(
      "loss", [model](Tensor tokens, Tensor targets) { return modelLoss(model, tokens, targets); },
      atLevel(GetParam()));
  for (uint64_t seed : {1, 2, 3}) {
    const Batch data = someBatch(seed);
    const double expected = oracleLoss(oracleWeights(model), data);
    EXPECT_NEAR(loss(data.tokenArray, data.targetArray)[0].item(), expected, 2e-6 * expected);
  }
  EXPECT_EQ(loss.counters().cache.misses, 1);
}

// Each gradient along random directions against central differences of the oracle.
TEST_P(Gpt2AtLevel, gradientsAreTheOraclesSlopes) {
  const Model model = livelyModel();
  const Batch data = someBatch();
  const std::vector<Array> gradients = compiledGradients(model, data, GetParam());
  const OracleWeights weights = oracleWeights(model);
  ASSERT_EQ(gradients.size(), weights.size());
  for (size_t p = 0; p < gradients.size(); ++p) {
    const std::string &name = model.parameters()[p].name();
    const std::span<const float> gradient = gradients[p].data<float>();
    for (uint64_t direction = 0; direction < 4; ++direction) {
      constexpr double step = 1e-5;
      OracleWeights above = weights, below = weights;
      double expected = 0, norm = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double change = normalBits(randomBits(direction, streamOf(name), i));
        above[name][i] += step * change;
        below[name][i] -= step * change;
        expected += change * double(gradient[i]);
        norm += double(gradient[i]) * double(gradient[i]);
      }
      const double slope = (oracleLoss(above, data) - oracleLoss(below, data)) / (2 * step);
      EXPECT_NEAR(expected, slope, 1e-5 * std::sqrt(norm) + 1e-7) << name;
    }
  }
}

// Four steps against AdamW in double precision over the compiled gradients; the first clips, the learning rate changes.
TEST(Gpt2, trainingStepIsClippedAdamw) {
  TrainingStep step(livelyModel());
  std::map<std::string, std::vector<double>> m, v;
  for (int number = 1; number <= 4; ++number) {
    const double lr = 0.01 / number;
    const Batch data = someBatch(uint64_t(number));
    const std::vector<Array> gradients = compiledGradients(step.model, data, 2);
    const OracleWeights before = oracleWeights(step.model);
    double squares = 0;
    for (const Array &gradient : gradients)
      for (float value : gradient.data<float>())
        squares += double(value) * double(value);
    const auto [loss, norm] = step(data, lr, number);
    EXPECT_NEAR(loss, oracleLoss(before, data), 1e-5);
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-5 * norm);
    if (number == 1) {
      EXPECT_GT(norm, 1) << "the case must clip";
    }
    const double scale = std::min(1.0, 1 / (std::sqrt(squares) + 1e-6));
    for (size_t p = 0; p < gradients.size(); ++p) {
      const Parameter &parameter = step.model.parameters()[p];
      std::vector<double> &first = m[parameter.name()], &second = v[parameter.name()];
      first.resize(size_t(parameter.shape().elements()));
      second.resize(first.size());
      const double decay = parameter.shape().rank() >= 2 ? 0.1 : 0;
      for (size_t i = 0; i < first.size(); ++i) {
        const double gradient = scale * double(gradients[p].data<float>()[i]);
        first[i] = 0.9 * first[i] + 0.1 * gradient;
        second[i] = 0.95 * second[i] + 0.05 * gradient * gradient;
        const double old = before.at(parameter.name())[i];
        const double change =
            first[i] / (1 - std::pow(0.9, number)) / (std::sqrt(second[i] / (1 - std::pow(0.95, number))) + 1e-8);
        ASSERT_NEAR(parameter.data<float>()[i], old * (1 - lr * decay) - lr * change, 1e-3 * lr)
            << parameter.name() << " " << i << " step " << number;
      }
    }
  }
  EXPECT_EQ(step.function.counters().cache.misses, 1) << "lr and step are inputs";
}

TEST(Gpt2, plannedBytesAreCounted) {
  const Batch data = someBatch();
  TrainingStep step(livelyModel());
  // An unchecked run: pages that were touched are counted, as in train_gpt.
  FunctionOptions options = atLevel(2);
  options.checked = false;
  step.function = compile(
      "training_step",
      [&](Tensor tokens, Tensor targets, Tensor lr, Tensor number) {
        return trainingStep(step.model, step.optimizer, tokens, targets, lr, number).loss;
      },
      options);
  step.function(data.tokenArray, data.targetArray, 1e-3f, 1.f);
  const runtime::MemoryReport memory = step.function.executable()->memory();
  EXPECT_EQ(memory.planned, step.function.lastCompile().plannedBytes);
  // Attention's blocks are of 64 queries and keys; this model's sequence fills a part of them.
  EXPECT_LE(memory.planned - 20480, memory.peak()) << "every page of the arena is used";
  EXPECT_LE(memory.peak(), memory.planned + 8192) << "nothing beside the plan is allocated";
}

TEST(Gpt2, aStepWithoutAFiniteLossKeepsEveryBit) {
  TrainingStep step(livelyModel());
  const Batch data = someBatch();
  step(data, 0.01, 1);
  step.model.parameters()[3].data<float>()[0] = NAN;
  std::vector<std::vector<float>> before;
  for (const std::vector<State> &states :
       {step.model.parameters(), step.optimizer.firstMoments(), step.optimizer.secondMoments()})
    for (const State &state : states)
      before.emplace_back(state.data<float>().begin(), state.data<float>().end());
  EXPECT_TRUE(std::isnan(step(data, 0.01, 2).first));
  size_t index = 0;
  for (const std::vector<State> &states :
       {step.model.parameters(), step.optimizer.firstMoments(), step.optimizer.secondMoments()})
    for (const State &state : states)
      EXPECT_EQ(std::memcmp(before[index++].data(), state.raw(), size_t(state.bytes())), 0) << state.name();
}

TEST(Gpt2, equalRunsHaveEqualBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<double>> losses;
  for (int threads : {1, 1, 2}) {
    TrainingStep step(livelyModel(), threads);
    losses.emplace_back();
    for (int number = 1; number <= 5; ++number)
      losses.back().push_back(step(someBatch(uint64_t(number)), 0.01, number).first);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST(Gpt2, learnsABatchByHeartAndRepeatsIt) {
  Model model(tiny);
  model.initialize(3);
  TrainingStep step(model);
  Batch data; // 0 1 2 … 10 0 1 …
  for (int32_t i = 0; i < batch * sequence; ++i) {
    data.tokens.push_back(i % 11);
    data.targets.push_back((i + 1) % 11);
  }
  data.tokenArray = Array::of(std::span<const int32_t>(data.tokens), {batch, sequence});
  data.targetArray = Array::of(std::span<const int32_t>(data.targets), {batch, sequence});
  EXPECT_NEAR(step(data, 0.01, 1).first, std::log(11.0), 0.1);
  double loss = 0;
  for (int number = 2; number <= 150; ++number)
    loss = step(data, 0.01, number).first;
  EXPECT_LT(loss, 0.05);

  TextGenerator generator(model, sequence, atLevel(2));
  const std::vector<int32_t> prompt = {0};
  const std::vector<int32_t> text = generator.generate(prompt, 5, {.temperature = 0});
  EXPECT_EQ(text, (std::vector<int32_t>{1, 2, 3, 4, 5}));
}

TEST(Gpt2, theNextLogitsAreARowOfAllLogits) {
  const Model model = livelyModel();
  Function all = compile("logits", [model](Tensor tokens) { return modelLogits(model, tokens); }, atLevel(2));
  Function next = compile(
      "next_logits", [model](Tensor tokens, Tensor last) { return modelNextLogits(model, tokens, last); }, atLevel(2));
  std::vector<int32_t> tokens = {4, 8, 1, 0, 9, 2};
  const std::vector<Array> expected = all(Array::of(std::span<const int32_t>(tokens), {1, sequence}));
  for (int32_t last = 0; last < sequence; ++last) {
    std::vector<int32_t> seen(tokens.begin(), tokens.begin() + last + 1);
    seen.resize(sequence, 7); // what comes after must not matter
    const std::vector<Array> row = next(Array::of(std::span<const int32_t>(seen), {1, sequence}),
                                        Array::of(std::span<const int32_t>(&last, 1), {1}));
    for (int64_t token = 0; token < tiny.vocab; ++token)
      EXPECT_NEAR(row[0].item(token), expected[0].item(last * tiny.vocab + token), 1e-5);
  }
}

TEST(Gpt2, aLongerTextSlidesOverTheContext) {
  const Model model = livelyModel();
  TextGenerator generator(model, sequence, atLevel(2));
  const std::vector<int32_t> prompt = {1, 2, 3};
  const std::vector<int32_t> text = generator.generate(prompt, 3 * sequence, {.temperature = 1, .seed = 5});
  EXPECT_EQ(text.size(), size_t(3 * sequence));
  EXPECT_EQ(generator.generate(prompt, 3 * sequence, {.temperature = 1, .seed = 5}), text);
  EXPECT_NE(generator.generate(prompt, 3 * sequence, {.temperature = 1, .seed = 6}), text);
}

TEST(Gpt2, rowsBeyondThePositionTableAreRefused) {
  const Model model(tiny);
  Function loss = compile("loss", [model](Tensor tokens, Tensor targets) { return modelLoss(model, tokens, targets); });
  try {
    loss(Array({1, 9}, DType::i32), Array({1, 9}, DType::i32));
    FAIL() << "no error";
  } catch (const tcc::Error &error) {
    EXPECT_EQ(error.message(), "tokens [1, 9] for a model of 8 positions; they are [batch, T] with T up to that");
  }
}

} // namespace
} // namespace tcc::models
