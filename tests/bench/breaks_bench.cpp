// breaks_bench [STEPS]: what `loss.item()` before the gradients costs a training step of a small GPT, beside the step
// without it: ms of both, in turns, and the memory of a process that ran the one or the other.
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

} // namespace

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 30;
  Training plain(false), asks(true);
  for (int i = 0; i < 3; ++i)
    plain.milliseconds(), asks.milliseconds();
  std::vector<double> without, with, ratios;
  for (int i = 0; i < steps; ++i) {
    without.push_back(plain.milliseconds());
    with.push_back(asks.milliseconds());
    ratios.push_back(with.back() / without.back());
  }
  std::printf("without a break %.3f ms, with `loss.item()` %.3f ms, median ratio %.3f\n", median(without), median(with),
              median(ratios));
  const runtime::MemoryReport a = plain.function.executable()->memory(), b = asks.function.executable()->memory();
  std::printf("planned %.2f MB and %.2f MB, peak %.2f MB and %.2f MB: ratio %.3f\n", double(a.planned) * 1e-6,
              double(b.planned) * 1e-6, double(a.peak()) * 1e-6, double(b.peak()) * 1e-6,
              double(b.peak()) / double(a.peak()));
  std::printf("%s", asks.function.report().text().c_str());
}
