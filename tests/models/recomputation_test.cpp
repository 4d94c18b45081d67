// --remat: every choice gives the bits of the others, in less memory, and what is planned is what is counted.
#include "models/generate.h"
#include "models/model.h"
#include "models/run_device.h"
#include "models/run_setup.h"
#include "runtime/executable.h"
#include "tests/state_bytes.h"

#include <gtest/gtest.h>

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;

TrainOptions parsed(const Arguments &more) {
  Arguments arguments = {"--estimate", "--quiet", "--threads=2", "--device=cpu", "--no-cache"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ParsedOptions options = parseTrainOptions(arguments);
  EXPECT_TRUE(options.options) << options.message;
  return options.options.value_or(TrainOptions());
}

struct Trained {
  std::vector<float> results; // losses and norms
  std::string states;         // bytes of weights and moments
  int64_t planned = 0, counted = 0;
};

/// Three steps on tokens that follow from the step.
Trained trained(const TrainOptions &options) {
  const ModelConfig config = trainedConfig(options, {});
  const RunDevice device = chooseDevice(options.device);
  const DropoutRates dropout = trainedDropout(options, config);
  Model model(config, {}, options.parameters);
  model.initialize(options.seed);
  const std::unique_ptr<optim::Optimizer> optimizer = makeOptimizer(options, model.trained());
  Function step = trainingFunction(options, model, *optimizer,
                                   functionOptions(options, device, stepInputNames(dropout), {"loss", "norm"}, {}));
  const Shape shape{options.accumulate * options.batch, options.sequence.value_or(config.positions())};
  Array tokens(shape, DType::i32), targets(shape, DType::i32);
  Trained made;
  for (int32_t number = 0; number < 3; ++number) {
    for (int64_t i = 0; i < shape.elements(); ++i) {
      tokens.data<int32_t>()[i] = static_cast<int32_t>((i * 7 + i / 5 + number) % config.vocabulary());
      targets.data<int32_t>()[i] = static_cast<int32_t>((i * 11 + 3 * number) % config.vocabulary());
    }
    std::vector<Array> arguments = {tokens, targets, Array(1e-3f), Array(float(number + 1))};
    if (dropout.any())
      arguments.push_back(Array::scalar(number));
    for (const Array &result : step.call(arguments))
      made.results.push_back(static_cast<float>(result.item()));
  }
  made.states = test::bytesOf(step.states());
  made.planned = step.lastCompile().plannedBytes;
  made.counted = step.executable()->peakBytes();
  return made;
}

struct Sample {
  const char *name;
  Arguments options;
};

class RecomputationTest : public testing::TestWithParam<Sample> {};

TEST_P(RecomputationTest, keepsBitsInLessMemory) {
  const auto with = [](const char *remat) {
    Arguments arguments = GetParam().options;
    arguments.push_back(std::string("--remat=") + remat);
    return trained(parsed(arguments));
  };
  const Trained none = with("none");
  EXPECT_EQ(none.planned, none.counted);
  int64_t before = none.planned;
  for (const char *remat : {"auto", "block", "full"}) {
    const Trained made = with(remat);
    EXPECT_EQ(made.results, none.results) << remat;
    EXPECT_TRUE(made.states == none.states) << remat;
    EXPECT_EQ(made.planned, made.counted) << remat;
    if (std::string_view(remat) != "full") { // of few layers it keeps what `block` keeps
      EXPECT_LT(made.planned, before) << remat;
      before = made.planned;
    }
  }
}

struct Limited {
  int64_t planned = 0, counted = 0;
  double share = 0; // of the time, spent again
};

/// One step under a limit; nothing, and `message`, where none fits.
std::optional<Limited> stepWithin(int64_t limit, std::string &message) {
  TrainOptions options = parsed({"--model=baby", "--layers=6", "--width=32", "--heads=2", "--seq=16", "--batch=32"});
  options.memoryLimit = limit;
  Model model(trainedConfig(options, {}), {}, options.parameters);
  model.initialize(options.seed);
  const std::unique_ptr<optim::Optimizer> optimizer = makeOptimizer(options, model.trained());
  const RunDevice device = chooseDevice(options.device);
  Function step =
      trainingFunction(options, model, *optimizer, functionOptions(options, device, stepInputNames({}), {}, {}));
  const Array tokens(Shape{32, 16}, DType::i32), targets(Shape{32, 16}, DType::i32);
  try {
    step(tokens, targets, 1e-3f, 1.f);
  } catch (const Error &error) {
    message = error.what();
    return std::nullopt;
  }
  return Limited{step.executable()->plannedBytes(), step.executable()->peakBytes(), step.lastCompile().recomputedShare};
}

TEST(MemoryLimit, isKeptAndWhatItCostsIsMonotone) {
  std::string message;
  const Limited free = *stepWithin(0, message);
  EXPECT_FALSE(stepWithin(1000, message));
  EXPECT_NE(message.find("the step needs at least "), std::string::npos) << message;
  EXPECT_NE(message.find(" MB, and its memory limit is 0.001 MB; what takes most:\n"), std::string::npos) << message;
  EXPECT_NE(message.find("gpt2.cpp:"), std::string::npos) << message;
  constexpr int limits = 20;
  Limited before = free;
  int fitted = 0, differing = 0;
  for (int i = 0; i < limits; ++i) {
    const int64_t limit = free.planned - free.planned * i / limits;
    const std::optional<Limited> made = stepWithin(limit, message);
    if (!made)
      continue;
    EXPECT_EQ(fitted++, i) << "a smaller limit fits, and a larger one did not";
    EXPECT_EQ(made->planned, made->counted);
    EXPECT_LE(made->counted, limit);
    EXPECT_LE(made->counted, before.counted);
    EXPECT_GE(made->share, before.share);
    differing += made->counted != before.counted;
    before = *made;
  }
  EXPECT_GE(fitted, limits / 2);
  EXPECT_GE(differing, 4);
  EXPECT_GT(before.share, 0.05);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputationTest,
    testing::Values(Sample{"baby", {"--model=baby", "--layers=4", "--batch=8"}},
                    Sample{"bf16", {"--model=baby", "--layers=4", "--batch=8", "--dtype=bf16"}},
                    Sample{"narrow",
                           {"--model=baby", "--layers=4", "--batch=8", "--dtype=bf16", "-fnarrow-activations"}},
                    Sample{"dropout", {"--model=baby", "--layers=4", "--batch=8", "--dropout=0.2"}},
                    Sample{"accumulated", {"--model=baby", "--layers=4", "--batch=8", "--accumulate=2"}},
                    Sample{"llama", {"--model=llama-baby", "--layers=4", "--batch=8"}},
                    Sample{"oddSizes",
                           {"--model=baby", "--layers=9", "--heads=5", "--width=80", "--seq=200", "--vocab=1000",
                            "--batch=3", "--optimizer=muon"}},
                    Sample{"withoutFusion", {"--model=baby", "--layers=4", "--batch=8", "-O0"}}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tcc::models
