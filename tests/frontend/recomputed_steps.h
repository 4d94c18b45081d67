// Small training steps with blocks whose values can be computed again, and what a run of one gives under each --remat=.
#pragma once
#include "runtime/executable.h"
#include "tests/frontend/quiet_functions.h"
#include <gtest/gtest.h>
#include <tcc/tcc.h>

namespace tcc {

/// x + f(x·a)·b, `blocks` times, with an own weight each; `f` is the activation.
struct BlockModel {
  static constexpr int64_t blocks = 6, width = 24, inner = 96, rows = 64;
  std::vector<Parameter> up, down;

  BlockModel() {
    for (int64_t i = 0; i < blocks; ++i) {
      up.emplace_back("up" + std::to_string(i), Shape{width, inner});
      down.emplace_back("down" + std::to_string(i), Shape{inner, width});
    }
    int64_t seed = 1;
    for (std::vector<Parameter> *list : {&up, &down})
      for (Parameter &weight : *list)
        for (float &value : weight.data<float>())
          value = 0.02f * static_cast<float>((seed = seed * 7 % 1009) % 17 - 8);
  }
  Tensor loss(Tensor x, const std::function<Tensor(const Tensor &)> &activation) const {
    for (size_t i = 0; i < up.size(); ++i)
      x = x + matmul(activation(matmul(x, up[i])), down[i]);
    return mean(x * x);
  }
  std::vector<Tensor> weights() const {
    std::vector<Tensor> list;
    for (size_t i = 0; i < up.size(); ++i)
      list.insert(list.end(), {Tensor(up[i]), Tensor(down[i])});
    return list;
  }
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> list;
    for (size_t i = 0; i < up.size(); ++i)
      list.insert(list.end(), {up[i], down[i]});
    return list;
  }
};

/// Gives the loss, and the new weights to the model.
using RecomputedStep = std::function<Tensor(const BlockModel &, const Tensor &x)>;

struct Recomputed {
  std::vector<float> losses;
  std::vector<std::vector<float>> weights;
  int64_t planned = 0, counted = 0, again = 0;
};

inline Recomputed recomputed(const RecomputedStep &body, Remat remat, FunctionOptions options) {
  const BlockModel model;
  options.remat = remat;
  Function step = compile("step", [&](Tensor x) { return body(model, x); }, std::move(options));
  Recomputed made;
  for (int i = 0; i < 3; ++i)
    made.losses.push_back(static_cast<float>(
        step(sequence({BlockModel::rows, BlockModel::width}, -0.5f, 0.0007f + 1e-4f * float(i)))[0].item()));
  for (Parameter &weight : model.parameters()) {
    const auto values = weight.read<float>();
    made.weights.emplace_back(values.begin(), values.end());
  }
  made.planned = step.executable()->plannedBytes();
  made.counted = step.executable()->peakBytes();
  made.again = step.lastCompile().recomputedOps;
  return made;
}

/// That every choice gives the bits of none, and uses what it plans. `options` are made for each; `saves`: whether
/// computing blocks again must need less memory.
inline void expectSameBits(const RecomputedStep &body, const std::function<FunctionOptions()> &options,
                           bool saves = true) {
  const Recomputed none = recomputed(body, Remat::none, options());
  EXPECT_EQ(none.planned, none.counted);
  EXPECT_EQ(none.again, 0);
  EXPECT_NE(none.losses[0], none.losses[2]) << "it trains";
  for (const Remat remat : {Remat::automatic, Remat::block, Remat::full}) {
    const Recomputed made = recomputed(body, remat, options());
    const int number = static_cast<int>(remat);
    EXPECT_EQ(made.losses, none.losses) << number;
    EXPECT_TRUE(made.weights == none.weights) << number;
    EXPECT_EQ(made.planned, made.counted) << number;
    EXPECT_LE(made.planned, none.planned) << number;
    if (saves && remat == Remat::block) {
      EXPECT_LT(made.planned, none.planned);
      EXPECT_GT(made.again, 0);
    }
  }
}

/// SGD by the gradients of one batch.
inline Tensor plainStep(
    const BlockModel &model, const Tensor &x,
    const std::function<Tensor(const Tensor &)> &activation = [](const Tensor &t) { return gelu(t); }) {
  const Tensor loss = model.loss(x, activation);
  const std::vector<Tensor> gradients = gradient(loss, model.weights());
  std::vector<Parameter> parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    assign(parameters[i], parameters[i] - 0.05 * gradients[i]);
  return loss;
}

/// The same of two batches, whose gradients a repeat adds up.
inline Tensor repeatedStep(const BlockModel &model, const Tensor &x) {
  const std::vector<Tensor> weights = model.weights();
  std::vector<Tensor> start{full(0.0, {})};
  for (const Tensor &weight : weights)
    start.push_back(weight * 0.0);
  const auto turn = [&](const std::vector<Tensor> &carried, const std::vector<Tensor> &parts) {
    const Tensor loss = model.loss(parts[0], [](const Tensor &t) { return gelu(t); });
    const std::vector<Tensor> gradients = gradient(loss, weights);
    std::vector<Tensor> next{carried[0] + loss};
    for (size_t i = 0; i < gradients.size(); ++i)
      next.push_back(carried[i + 1] + gradients[i]);
    return next;
  };
  const std::vector<Tensor> sums =
      repeat(2, start, std::vector{reshape(x, {2, BlockModel::rows / 2, BlockModel::width})}, turn);
  std::vector<Parameter> parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    assign(parameters[i], parameters[i] - 0.05 * sums[i + 1]);
  return sums[0];
}

} // namespace tcc
