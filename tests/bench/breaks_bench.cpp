// breaks_bench [STEPS]: what graph breaks cost, beside the same step without them, in turns, and what the report says
// that they cost (measureBreaks): `loss.item()` before the gradients of a small GPT, with the memory of both; and
// chains of 40 values that are looked at one after the other, with and without gradients.
#include "models/model.h"
#include "runtime/device/device.h"
#include "runtime/executable.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace tcc;
using namespace tcc::models;

namespace {

constexpr Gpt2Config small{.layers = 4, .heads = 4, .width = 128, .sequence = 128, .vocab = 1024};
constexpr int64_t batch = 4;

struct Training {
  Model model{small};
  optim::Adamw optimizer{model.parameters()};
  Array tokens{{batch, small.sequence}, DType::i32}, targets{{batch, small.sequence}, DType::i32};
  double seen = 0;
  int number = 0;
  Function function;

  explicit Training(bool asks)
      : function(compile(
            "training_step",
            [this, asks](Tensor tokens, Tensor targets, Tensor lr, Tensor step) {
              const Tensor loss = modelLoss(model, tokens, targets);
              if (asks)
                seen = loss.item();
              const auto gradients = gradient(loss, model.parameters());
              return std::pair{loss, optimizer.step(loss, gradients, lr, step).norm};
            },
            [] {
              FunctionOptions options;
              options.report = [](std::string_view) {};
              return options;
            }())) {
    model.initialize(1);
    for (int64_t i = 0; i < batch * small.sequence; ++i) {
      tokens.setItem(i, static_cast<double>(i * 37 % small.vocab));
      targets.setItem(i, static_cast<double>(i * 53 % small.vocab));
    }
  }
  Training(const Training &) = delete;

  std::vector<Array> arguments() const { return {tokens, targets, Array(1e-4f), Array(float(number))}; }
  double milliseconds() {
    const auto start = std::chrono::steady_clock::now();
    function(tokens, targets, 1e-4f, float(++number))[0].item();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// 40 layers of 64 x 64, whose means are looked at one after the other; perhaps with the gradient of all means.
struct Chain {
  Parameter weight{"weight", {64, 64}};
  double seen = 0;
  Array x{{64, 64}};
  Function function;

  Chain(bool asks, bool takesGradient)
      : function(compile(
            "chain",
            [this, asks, takesGradient](Tensor x) {
              Tensor total = mean(x);
              for (int i = 0; i < 40; ++i) {
                x = tanh(matmul(x, weight));
                const Tensor part = mean(x);
                total = total + part;
                if (asks)
                  seen += part.item();
              }
              if (takesGradient)
                assign(weight, weight - 1e-3 * gradient(total, {weight}));
              return total;
            },
            [] {
              FunctionOptions options;
              options.threads = 1;
              options.report = [](std::string_view) {};
              return options;
            }())) {
    for (size_t i = 0; i < 64 * 64; ++i) {
      x.data<float>()[i] = static_cast<float>(i % 251) / 251;
      weight.data<float>()[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5f;
    }
  }
  Chain(const Chain &) = delete;

  double milliseconds() {
    const auto start = std::chrono::steady_clock::now();
    function(x)[0].item();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::vector<Array> arguments() const { return {x}; }
};

/// Medians in turns; then the report's.
template <typename Program>
void compare(const char *what, Program &plain, Program &asks, int steps) {
  std::vector<double> without, with, differences;
  for (int i = -3; i < steps; ++i) {
    const double a = plain.milliseconds(), b = asks.milliseconds();
    if (i < 0)
      continue;
    without.push_back(a);
    with.push_back(b);
    differences.push_back(b - a);
  }
  const BreakReport report = asks.function.measureBreaks(asks.arguments(), steps);
  const double measured = median(differences), said = report.withBreaksMs - report.oneStepMs;
  std::printf("%s: without breaks %.3f ms, with them %.3f ms (%.3f times); they cost %.3f ms, the report says %.3f ms "
              "(%.2f times)\n",
              what, median(without), median(with), median(with) / median(without), measured, said, said / measured);
}

} // namespace

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 30;
  {
    Training plain(false), asks(true);
    compare("`loss.item()` of a GPT", plain, asks, steps);
    const runtime::MemoryReport a = plain.function.executable()->memory(), b = asks.function.executable()->memory();
    std::printf("planned %.2f MB and %.2f MB, peak %.2f MB and %.2f MB: ratio %.3f\n", double(a.planned) * 1e-6,
                double(b.planned) * 1e-6, double(a.peak()) * 1e-6, double(b.peak()) * 1e-6,
                double(b.peak()) / double(a.peak()));
    std::printf("%s", asks.function.report().text().c_str());
  }
  for (const bool takesGradient : {false, true}) {
    Chain plain(false, takesGradient), asks(true, takesGradient);
    compare(takesGradient ? "40 values with gradients" : "40 values", plain, asks, steps);
  }
}
