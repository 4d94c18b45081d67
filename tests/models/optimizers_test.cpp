// Every optimizer against PyTorch's, or a few lines of numpy, over 20 steps (optimizers_expected.json, written by
// optimizers_expected.py); steps that are not applied; an optimizer of a user's own.
#include "test_files.h"
#include "tests/state_bytes.h"
#include <tcc/tcc.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

namespace tcc {
namespace {

using nlohmann::json;

const std::pair<const char *, Shape> shapes[] = {
    {"h.0.attn.weight", {5, 3}}, {"h.0.mlp.weight", {3, 7}}, {"h.0.mlp.bias", {4}}, {"wte.weight", {6, 3}}};

std::vector<Parameter> startingParameters() {
  std::vector<Parameter> parameters;
  for (const auto &[name, shape] : shapes) {
    const Parameter &parameter = parameters.emplace_back(name, shape);
    const std::span<float> values = parameter.data<float>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(0.3 * std::sin(0.7310585 * double(i) + double(parameters.size() - 1)));
  }
  return parameters;
}

Array gradientOf(size_t parameter, int step) {
  Array gradient(shapes[parameter].second);
  const std::span<float> values = gradient.data<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float((1 + 0.1 * double(parameter)) * std::sin(0.9 * double(i) + 0.37 * step + double(parameter)));
  return gradient;
}

/// The update alone, with gradients, loss, rate and step as inputs.
Function updateOf(optim::Optimizer &optimizer) {
  FunctionOptions options;
  options.threads = 1;
  options.checked = true;
  options.report = [](std::string_view) {};
  return compile(
      "update",
      [&optimizer](std::span<const Tensor> in) {
        return std::vector{optimizer.step(in[4], in.first(4), in[5], in[6]).norm};
      },
      [&] {
        options.inputs = {"g0", "g1", "g2", "g3", "loss", "lr", "step"};
        return options;
      }());
}

void runStep(Function &update, int step, float loss = 1) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < 4; ++i)
    inputs.push_back(gradientOf(i, step));
  inputs.insert(inputs.end(), {Array(loss), Array(float(0.02 / (1 + 0.1 * step))), Array(float(step))});
  update.call(inputs);
}

std::unique_ptr<optim::Optimizer> make(const std::string &name, const std::vector<Parameter> &parameters) {
  if (name.starts_with("adamw"))
    return std::make_unique<optim::Adamw>(parameters, optim::AdamwSettings{.clip = name == "adamw" ? 0 : 0.5});
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(parameters, optim::SgdSettings{.weightDecay = 0.1, .clip = 0});
  if (name == "lion")
    return std::make_unique<optim::Lion>(parameters, optim::LionSettings{.clip = 0});
  if (name == "adafactor")
    return std::make_unique<optim::Adafactor>(parameters, optim::AdafactorSettings{.weightDecay = 0.1, .clip = 0});
  return std::make_unique<optim::Muon>(parameters, optim::MuonSettings{.rest = {.clip = 0}});
}

class Optimizers : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("adamw", "adamw-clipped", "sgd", "lion", "adafactor", "muon"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Optimizers, twentyStepsAreThoseOfAnotherImplementation) {
  const json expected = json::parse(models::readAll("tests/models/optimizers_expected.json"))[GetParam()];
  const std::vector<Parameter> parameters = startingParameters();
  const auto optimizer = make(GetParam(), parameters);
  Function update = updateOf(*optimizer);
  for (int step = 1; step <= 20; ++step)
    runStep(update, step);
  EXPECT_EQ(update.counters().cache.misses, 1);
  for (const Parameter &parameter : parameters) {
    const json &values = expected[parameter.name()];
    ASSERT_EQ(values.size(), size_t(parameter.shape().elements()));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(parameter.data<float>()[i], values[i].get<double>(), 2e-5) << parameter.name() << " " << i;
  }
}

TEST_P(Optimizers, aStepThatIsNotAppliedKeepsEveryBit) {
  const std::vector<Parameter> parameters = startingParameters();
  const auto optimizer = make(GetParam(), parameters);
  Function update = updateOf(*optimizer);
  runStep(update, 1);
  runStep(update, 2);
  parameters[0].data<float>()[3] = NAN; // bits that arithmetic would not keep
  parameters[1].data<float>()[2] = -0.f;
  std::vector<State> states = optimizer->states();
  EXPECT_FALSE(states.empty());
  states.insert(states.end(), parameters.begin(), parameters.end());
  const auto bytes = [&] { return test::bytesOf(states); };
  const std::string before = bytes();
  for (float loss : {NAN, INFINITY}) {
    runStep(update, 3, loss);
    EXPECT_TRUE(bytes() == before);
  }
  parameters[0].data<float>()[3] = 0;
  const std::string repaired = bytes();
  runStep(update, 3);
  EXPECT_FALSE(bytes() == repaired) << "and the next one is";
}

/// What a user writes: signs alone.
class Signs : public optim::Optimizer {
public:
  explicit Signs(std::vector<Parameter> parameters) : Optimizer(std::move(parameters), 0) {}

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override {
    const Parameter &parameter = parameters()[index];
    const Tensor up = Tensor(parameter) + moment.lr, down = Tensor(parameter) - moment.lr;
    moment.assign(parameter, select(greater(gradient, 0.0), down, up));
  }
};

TEST(Optimizers, oneOfAUsersOwn) {
  const std::vector<Parameter> parameters = startingParameters(), before = startingParameters();
  Signs signs(parameters);
  Function update = updateOf(signs);
  runStep(update, 1);
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Array gradient = gradientOf(p, 1);
    for (size_t i = 0; i < parameters[p].data<float>().size(); ++i) {
      const float lr = float(0.02 / 1.1), change = gradient.data<float>()[i] > 0 ? -lr : lr;
      EXPECT_EQ(parameters[p].data<float>()[i], before[p].data<float>()[i] + change);
    }
  }
}

} // namespace
} // namespace tcc
