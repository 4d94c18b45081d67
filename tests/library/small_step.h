// A small training step for tests of libraries: a perceptron of two layers with AdamW.
#pragma once
#include <algorithm>
#include <tcc/tcc.h>

namespace tcc::test {

struct SmallStep {
  static constexpr int64_t rows = 8, inputs = 24, hidden = 80, classes = 10;

  Parameter w1{"w1", {inputs, hidden}}, b1{"b1", {hidden}}, w2{"w2", {hidden, classes}}, b2{"b2", {classes}};
  optim::Adamw optimizer{{w1, b1, w2, b2}, {.weightDecay = 0.1, .clip = 0.5}};
  Function function;

  explicit SmallStep(std::shared_ptr<runtime::Device> device = nullptr, const std::string &compiledStep = "",
                     double slope = 1)
      : function(compile(
            "small step",
            [this, slope](Tensor x, Tensor targets, Tensor lr, Tensor step) {
              Tensor hidden = gelu(matmul(x, w1) + b1) * slope;
              Tensor loss = crossEntropy(matmul(hidden, w2) + b2, targets);
              auto [norm, applied] = optimizer.step(loss, gradient(loss, optimizer.parameters()), lr, step);
              return std::pair{loss, norm};
            },
            options(device, compiledStep))) {
    uint32_t seed = 1;
    for (Parameter *parameter : {&w1, &b1, &w2, &b2})
      for (float &value : parameter->data<float>())
        value = next(seed) * 0.2f;
  }

  static FunctionOptions options(std::shared_ptr<runtime::Device> device, const std::string &compiledStep) {
    FunctionOptions options;
    options.inputs = {"x", "targets", "lr", "step"};
    options.outputs = {"loss", "norm"};
    options.device = std::move(device);
    options.compiledStep = compiledStep;
    return options;
  }

  static float next(uint32_t &seed) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
  }

  /// The arguments of step number `index`.
  static std::vector<Array> arguments(int index) {
    Array x({rows, inputs}), targets({rows}, DType::i32);
    uint32_t seed = 100 + static_cast<uint32_t>(index);
    for (float &value : x.data<float>())
      value = next(seed);
    for (int32_t &value : targets.data<int32_t>())
      value = static_cast<int32_t>((next(seed) + 1) * 4.99f);
    return {x, targets, Array(0.01f), Array(float(index + 1))};
  }
};

} // namespace tcc::test
