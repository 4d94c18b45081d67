// Matmuls of f16: the scale of the loss follows the steps, gradients below f16's range arrive, and a step that is not
// finite changes nothing but the scale.
#include "tests/state_bytes.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

constexpr int64_t rows = 64, width = 8;

/// Trains y = x · w towards 0: loss · gain, by AdamW. What is no gradient of the loss is a state too.
class Regression {
public:
  explicit Regression(runtime::DType products, bool frozenScale = false) {
    std::span<float> values = w.data<float>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.05f * static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
    FunctionOptions options;
    options.threads = 1;
    options.products = products;
    options.inputs = {"x", "gain"};
    options.report = [](std::string_view) {};
    step.emplace(compile(
        "regression",
        [this, frozenScale](Tensor x, Tensor gain) {
          const Tensor y = matmul(x, w);
          Tensor loss = mean(y * Operand(y)) * Operand(gain);
          if (frozenScale) { // a scaling of the user's own
            assign(own, Tensor(own) * 1.0);
          }
          const std::vector<Tensor> gradients = gradient(loss, optimizer.parameters());
          assign(count, count + 1.0);
          auto [norm, applied] = optimizer.step(loss, gradients, full(0.01, {}), full(1.0, {}));
          return std::pair{loss, norm};
        },
        options));
  }

  std::vector<Array> run(float gain) {
    Array x({rows, width});
    int i = 0;
    for (float &value : x.data<float>())
      value = 0.1f * static_cast<float>(i++ * 5 % 13 - 6);
    return (*step)(x, Array(gain));
  }

  float scaling(size_t state) const { return step->lossScaling().at(state).read<float>()[0]; }
  /// The bytes of all states but those of scaling.
  std::string bits() const {
    std::vector<State> all = optimizer.states();
    all.push_back(w);
    all.push_back(count);
    return test::bytesOf(all);
  }

  Parameter w{"w", {width, width}};
  State count{"count", {}}, own{"loss_scale", {}};
  optim::Adamw optimizer{{w}, {.clip = 0}};
  std::optional<Function> step;
};

TEST(LossScaling, StartsAt65536AndCountsGoodSteps) {
  Regression regression(runtime::DType::f16);
  const std::string before = regression.bits();
  for (int i = 1; i <= 3; ++i) {
    regression.run(1);
    EXPECT_EQ(regression.scaling(0), 65536);
    EXPECT_EQ(regression.scaling(1), static_cast<float>(i));
  }
  EXPECT_EQ(regression.scaling(2), 0);
  EXPECT_EQ(regression.count.read<float>()[0], 3);
  EXPECT_NE(regression.bits(), before);
}

TEST(LossScaling, AnOverflowHalvesTheScaleAndKeepsEveryOtherBit) {
  Regression regression(runtime::DType::f16);
  regression.run(1);
  const std::string before = regression.bits();
  const std::vector<Array> results = regression.run(1e5f); // the loss is finite, its gradient times 65536 no f16
  EXPECT_TRUE(std::isfinite(results[0].item()));
  EXPECT_FALSE(std::isfinite(results[1].item()));
  EXPECT_EQ(regression.bits(), before);
  EXPECT_EQ(regression.scaling(0), 32768);
  EXPECT_EQ(regression.scaling(1), 0);
  EXPECT_EQ(regression.scaling(2), 1);
  // The scale falls until the gradient fits; then the step is applied.
  int steps = 0;
  while (regression.bits() == before && ++steps < 20)
    regression.run(1e5f);
  EXPECT_LT(steps, 20);
  EXPECT_EQ(regression.scaling(0), std::ldexp(32768.0f, -static_cast<int>(regression.scaling(2)) + 1));
  EXPECT_EQ(regression.scaling(1), 1);
  // A loss that is not finite at any scale leaves a scale that still works.
  for (int i = 0; i < 30; ++i)
    regression.run(INFINITY);
  EXPECT_EQ(regression.scaling(0), 1);
}

TEST(LossScaling, TwoThousandGoodStepsDoubleTheScale) {
  Regression regression(runtime::DType::f16);
  regression.run(1);
  regression.step->lossScaling()[1].data<float>()[0] = 1998;
  regression.run(1);
  EXPECT_EQ(regression.scaling(0), 65536);
  EXPECT_EQ(regression.scaling(1), 1999);
  regression.run(1);
  EXPECT_EQ(regression.scaling(0), 131072);
  EXPECT_EQ(regression.scaling(1), 0);
}

TEST(LossScaling, GradientsBelowTheRangeOfF16Arrive) {
  Regression wide(runtime::DType::f32), scaled(runtime::DType::f16), own(runtime::DType::f16, true);
  const float gain = 1e-6f;
  const double expected = wide.run(gain)[1].item();
  EXPECT_GT(expected, 1e-10);
  EXPECT_NEAR(scaled.run(gain)[1].item(), expected, 0.01 * expected);
  EXPECT_EQ(own.run(gain)[1].item(), 0) << "a step with a scaling of its own is not touched";
  EXPECT_TRUE(wide.step->lossScaling().empty());
}

TEST(LossScaling, TheGraphShowsTheScaling) {
  Regression regression(runtime::DType::f16);
  Array x({rows, width}), gain(1.0f);
  const std::vector<Array> arguments{x, gain};
  const std::string text = regression.step->graph(arguments);
  EXPECT_NE(text.find("tcc.name = \"loss_scale.skipped_steps\", tcc.state"), std::string::npos) << text;
  EXPECT_NE(text.find("tcc.updates = \"loss_scale\""), std::string::npos) << text;
}

TEST(LossScaling, WithoutAStateToUpdateThereIsNone) {
  FunctionOptions options;
  options.products = runtime::DType::f16;
  options.report = [](std::string_view) {};
  Parameter w("w", {width, width});
  Function f =
      compile("gradient_alone", [&](Tensor x) { return gradient(sum(matmul(x, w)), std::vector{w})[0]; }, options);
  Array x({rows, width});
  for (float &value : x.data<float>())
    value = 0.5f;
  EXPECT_EQ(f(x)[0].item(3), 32);
}

TEST(LossScaling, AutoSaysWhatItChose) {
  std::vector<std::string> said;
  FunctionOptions options;
  options.chooseProducts = true;
  options.report = [&](std::string_view text) { said.emplace_back(text); };
  Function f = compile("product", [](Tensor x) { return matmul(x, x); }, options);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].starts_with("'product' multiplies bf16, which cpu multiplies fastest") ||
              said[0].starts_with("'product' multiplies f32, since cpu multiplies neither bf16 nor f16 faster") ||
              said[0].starts_with("'product' multiplies f32, since cpu has instructions for bf16 but was measured to"))
      << said[0];
}

} // namespace
