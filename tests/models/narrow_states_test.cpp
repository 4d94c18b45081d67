// Parameters and moments of bf16: updates computed in f32 and rounded at random, through optimizers, models,
// checkpoints.
#include "models/model.h"
#include "models/run_checkpoints.h"
#include "models/trainer.h"
#include "runtime/dtype.h"
#include "test_files.h"
#include "tests/state_bytes.h"
#include <tcc/tcc.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

constexpr int64_t count = 4096;

double meanOf(const State &state) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += state.dtype() == DType::bf16 ? double(runtime::bf16ToFloat(state.read<uint16_t>()[size_t(i)]))
                                        : double(state.read<float>()[size_t(i)]);
  return sum / count;
}

Parameter ones(DType dtype) {
  Parameter parameter("w", {64, 64}, dtype);
  for (int64_t i = 0; i < count; ++i)
    if (dtype == DType::bf16)
      parameter.data<uint16_t>()[size_t(i)] = runtime::floatToBf16(1);
    else
      parameter.data<float>()[size_t(i)] = 1;
  return parameter;
}

/// Steps of `optimizer` down the sum of (w - 0.25)², with a rate of 5e-4: a bf16 number near 1 has neighbours at 2^-8
/// below, so that rounding to nearest would leave it as it is.
void descend(const Parameter &w, optim::Optimizer &optimizer, int steps, double lr, float lossFactor = 1) {
  FunctionOptions options;
  options.threads = 1;
  options.report = [](std::string_view) {};
  Function function = compile(
      "descend",
      [&](Tensor rate, Tensor step, Tensor factor) {
        const Tensor wide = optim::inF32(w), off = wide - 0.25, loss = sum(off * off) * factor;
        return optimizer.step(loss, std::vector{gradient(loss, wide)}, rate, step).norm;
      },
      options);
  for (int step = 1; step <= steps; ++step)
    function(Array(float(lr)), Array(float(step)), Array(lossFactor));
}

std::unique_ptr<optim::Optimizer> make(const std::string &name, const Parameter &w) {
  if (name == "adamw")
    return std::make_unique<optim::Adamw>(std::vector{w}, optim::AdamwSettings{.weightDecay = 0});
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(std::vector{w}, optim::SgdSettings{.clip = 0});
  if (name == "lion")
    return std::make_unique<optim::Lion>(std::vector{w}, optim::LionSettings{.weightDecay = 0});
  if (name == "adafactor")
    return std::make_unique<optim::Adafactor>(std::vector{w}, optim::AdafactorSettings{});
  return std::make_unique<optim::Muon>(std::vector{w}, optim::MuonSettings{.rest = {.weightDecay = 0}});
}

/// AdamW's op on a bf16 parameter, which rounds to nearest.
class NearestAdamw : public optim::Optimizer {
public:
  explicit NearestAdamw(const Parameter &w) : Optimizer({w}, 1), m("w.m", w.shape()), v("w.v", w.shape()) {}

private:
  void update(size_t, const Tensor &gradient, const Moment &moment) override {
    const Parameter &w = parameters()[0];
    const AdamwResult next = adamw(Tensor(w), gradient, Tensor(m), Tensor(v), moment.lr, moment.step, moment.scale,
                                   moment.applied, {.weightDecay = 0});
    assign(w, next.parameter);
    assign(m, next.m);
    assign(v, next.v);
  }
  State m, v;
};

class NarrowStates : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, NarrowStates, testing::Values("adamw", "sgd", "lion", "adafactor", "muon"),
                         [](const auto &info) { return std::string(info.param); });

/// For steps of about 5e-4 in each element.
const std::map<std::string, double> rates = {
    {"adamw", 5e-4}, {"sgd", 5e-5}, {"lion", 5e-4}, {"adafactor", 5e-4}, {"muon", 2e-2}};

TEST_P(NarrowStates, smallUpdatesAddUpOnAverageAsInF32) {
  double reached[2];
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Parameter w = ones(dtype);
    const auto optimizer = make(GetParam(), w);
    EXPECT_FALSE(optimizer->states().empty());
    for (const State &state : optimizer->states())
      EXPECT_EQ(state.dtype(), dtype) << state.name();
    descend(w, *optimizer, 60, rates.at(GetParam()));
    reached[dtype == DType::bf16] = meanOf(w);
  }
  EXPECT_LT(reached[0], 0.99);
  EXPECT_NEAR(reached[1], reached[0], 0.1 * (1 - reached[0]));
}

TEST_P(NarrowStates, aStepThatIsNotAppliedKeepsEveryBit) {
  const Parameter w = ones(DType::bf16);
  const auto optimizer = make(GetParam(), w);
  descend(w, *optimizer, 3, 1e-2);
  w.data<uint16_t>()[5] = 0x7fe1; // a NaN whose bits arithmetic would not keep
  std::vector<State> states = optimizer->states();
  states.push_back(w);
  const auto bytes = [&] { return test::bytesOf(states); };
  const std::string before = bytes();
  descend(w, *optimizer, 1, 1e-2, INFINITY);
  EXPECT_TRUE(bytes() == before);
}

TEST(NarrowStates, roundingToNearestWouldStall) {
  const Parameter w = ones(DType::bf16);
  NearestAdamw optimizer(w);
  descend(w, optimizer, 60, 5e-4);
  EXPECT_EQ(meanOf(w), 1);
}

TEST(NarrowStates, theSeedAndTheStepDecideTheRounding) {
  const auto bytesAfter = [](uint32_t seed, int steps) {
    const Parameter w = ones(DType::bf16);
    optim::Adamw optimizer({w});
    optimizer.setRoundingSeed(seed);
    descend(w, optimizer, steps, 5e-4);
    return std::string(static_cast<const char *>(w.rawForReading()), size_t(w.bytes()));
  };
  EXPECT_TRUE(bytesAfter(1, 2) == bytesAfter(1, 2));
  EXPECT_FALSE(bytesAfter(1, 2) == bytesAfter(2, 2));
}

/// Parameters of one shape are updated by one kernel, which is compiled once, and each is rounded by bits of its own,
/// in the same step and in neighbouring ones.
TEST(NarrowStates, equalParametersShareAKernelAndNoBits) {
  const auto kernelsFor = [](int parameters, std::vector<std::string> *bits) {
    std::vector<Parameter> all;
    for (int i = 0; i < parameters; ++i)
      all.emplace_back("w" + std::to_string(i), Shape{64, 64}, DType::bf16);
    optim::Lion optimizer(all, {.weightDecay = 0}); // whose first update is the rate, whatever the step
    FunctionOptions options;
    options.threads = 1;
    options.report = [](std::string_view) {};
    Function function = compile(
        "update",
        [&](Tensor gradient, Tensor rate, Tensor step) {
          return optimizer.step(sum(gradient), std::vector<Tensor>(all.size(), gradient), rate, step).norm;
        },
        options);
    Array gradient({64, 64}); // equal ones: their updates differ by rounding alone
    for (float &value : gradient.data<float>())
      value = 1;
    const auto arguments = [&](int step) { return std::vector{gradient, Array(1e-3f), Array(float(step))}; };
    for (int step = 1; bits && step <= 3; ++step) {
      for (const Parameter &w : all)
        std::memset(w.raw(), 0, size_t(w.bytes()));
      for (const State &state : optimizer.states())
        std::memset(state.raw(), 0, size_t(state.bytes()));
      function.call(arguments(step));
      for (const Parameter &w : all)
        bits->emplace_back(static_cast<const char *>(w.rawForReading()), size_t(w.bytes()));
    }
    return function.plan(arguments(1)).kernels.size();
  };
  std::vector<std::string> bits;
  kernelsFor(3, &bits);
  EXPECT_EQ(kernelsFor(12, nullptr), kernelsFor(6, nullptr));
  ASSERT_EQ(bits.size(), 9u);
  for (size_t i = 0; i < bits.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(bits[i] == bits[j]) << i << " and " << j;
}

class NarrowRuns : public testing::Test {
protected:
  TemporaryFolder folder;

  /// Trains a small model on an easy text.
  nlohmann::json run(std::vector<std::string> more) {
    const std::string log = folder.path("log.jsonl");
    more.insert(more.begin(), {"--data", folder.write("text", easyText(400)), "--quiet", "--threads=1", "--device=cpu",
                               "--seq=16", "--batch=4", "--json", log});
    if (std::ranges::find(more, "--init") == more.end())
      more.insert(more.begin(), {"--layers=1", "--heads=2", "--width=16"});
    const ParsedOptions parsed = parseTrainOptions(more);
    if (!parsed.options)
      throw Error(parsed.message);
    train(*parsed.options, stdout);
    const std::string lines = readAll(log);
    return nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  }
};

TEST_F(NarrowRuns, losesLittleAgainstF32AndHalfTheMemoryOfTheStates) {
  const auto wide = run({"--steps=300", "--lr=3e-3"}), narrow = run({"--steps=300", "--lr=3e-3", "--params=bf16"});
  EXPECT_LT(wide["loss_last"].get<double>(), 1.5);
  EXPECT_NEAR(narrow["loss_last"].get<double>(), wide["loss_last"].get<double>(), 0.12);
  EXPECT_EQ(narrow["planned_bytes"], narrow["peak_bytes"]);
}

TEST_F(NarrowRuns, savesF32AndGoesOnWithTheSameBits) {
  const auto with = [&](const char *name, std::vector<std::string> more) {
    more.insert(more.begin(), {"--lr=1e-2", "--schedule=constant", "--params=bf16", "--dtype=bf16", "--checkpoint",
                               folder.path(name)});
    run(more);
  };
  with("whole", {"--steps=12"});
  with("parts", {"--steps=5"});
  with("parts", {"--steps=12", "--resume"});
  for (const char *file : {"model.safetensors", "optimizer.safetensors", "run.json"})
    EXPECT_TRUE(readAll(folder.path("whole/step-000000012/" + std::string(file))) ==
                readAll(folder.path("parts/step-000000012/" + std::string(file))))
        << file;
  const SafetensorsFile weights(folder.path("whole/step-000000012/model.safetensors"));
  for (const TensorEntry &entry : weights.tensors())
    EXPECT_EQ(entry.dtype, TensorDtype::F32) << entry.name;
  expectContains(errorOf([&] { run({"--steps=13", "--resume", "--checkpoint", folder.path("whole")}); }),
                 "the checkpoint's --params is `bf16`, this run's is `f32`");
}

} // namespace
} // namespace tcc::models
