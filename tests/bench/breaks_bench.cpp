// breaks_bench [STEPS]: what graph breaks cost, beside the same step without them, in turns, and what the report says
// that they cost (measureBreaks): `loss.item()` before the gradients of a small GPT, with the memory of both; and
// chains of 40 values that are looked at one after the other, with and without gradients.
// breaks_bench steps N plain|breaks: compilations and resident memory of N steps of that GPT, one that asks for its
// loss, prints it, branches on it and loops 3 or 7 times by it.
// breaks_bench sweep: microseconds of processor time a break, and a handle held over one, for 100 to 10000 of them.
#include "models/model.h"
#include "runtime/device/device.h"
#include "runtime/executable.h"
#include "tests/bench/median.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>
#include <unistd.h>
#include <vector>

using tcc::bench::median;
using namespace tcc;
using namespace tcc::models;

namespace {

constexpr Gpt2Config small{.layers = 4, .heads = 4, .width = 128, .sequence = 128, .vocab = 1024};
constexpr int64_t batch = 4;

FunctionOptions quiet(int threads = 0) {
  FunctionOptions options;
  options.threads = threads;
  options.report = [](std::string_view) {};
  return options;
}

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
            quiet())) {
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
            quiet(1))) {
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

/// Medians of `rounds`: each measures in turns, then asks the report, so that both see the machine as it is then.
template <typename Program>
void compare(const char *what, Program &plain, Program &asks, int steps) {
  constexpr int rounds = 5;
  std::vector<double> without, with, measured, said, agreement;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> differences;
    for (int i = round ? 0 : -3; i < std::max(steps / rounds, 1); ++i) {
      double a = 0, b = 0;
      for (const bool asksNow : {i % 2 == 0, i % 2 != 0}) // each is first as often as the other
        (asksNow ? b : a) = asksNow ? asks.milliseconds() : plain.milliseconds();
      if (i < 0)
        continue;
      without.push_back(a);
      with.push_back(b);
      differences.push_back(b - a);
    }
    const BreakReport report = asks.function.measureBreaks(asks.arguments(), std::max(steps / rounds, 1));
    measured.push_back(median(differences));
    said.push_back(report.withBreaksMs - report.oneStepMs);
    agreement.push_back(said.back() / measured.back());
  }
  std::printf("%s: without breaks %.3f ms, with them %.3f ms (%.3f times); they cost %.3f ms, the report says %.3f ms "
              "(%.2f times)\n",
              what, median(without), median(with), median(with) / median(without), median(measured), median(said),
              median(agreement));
}

/// A GPT whose host looks at the loss in every way; `breaks` false: at none.
struct Looking {
  bool breaks;
  Training data{false};
  double last = 0;
  int64_t number = 0, turns = 0;
  Function function;

  explicit Looking(bool breaks)
      : breaks(breaks),
        function(compile(
            "looking",
            [this](Tensor tokens, Tensor targets, Tensor lr, Tensor step, Tensor limit, Tensor bound) {
              const Tensor loss = modelLoss(data.model, tokens, targets);
              const Tensor trained = this->breaks ? ask(loss, limit, bound) : select(loss > limit, loss * 0.5, loss);
              const auto gradients = gradient(trained, data.model.parameters());
              return std::pair{loss, data.optimizer.step(trained, gradients, lr, step).norm};
            },
            quiet())) {}
  Looking(const Looking &) = delete;

  Tensor ask(const Tensor &loss, const Tensor &limit, const Tensor &bound) {
    last = loss.item();
    print("loss", loss);
    for (Tensor left = loss; left > bound; left = left * 0.5)
      ++turns;
    return loss > limit ? loss * 0.5 : loss;
  }
  void step() {
    const float limit = ++number % 2 == 0 ? 0 : 100;
    const auto bound = static_cast<float>(1.4 * last / (number % 20 < 10 ? 8 : 128));
    last = function(data.tokens, data.targets, 1e-6f, static_cast<float>(number), limit, last > 0 ? bound : 100.0f)[0]
               .item();
  }
};

double residentMegabytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) * 1e-6;
}

int runSteps(int64_t steps, bool breaks) {
  Looking looking(breaks);
  if (!std::freopen("/dev/null", "w", stdout))
    return 1;
  for (int64_t next = 1; looking.number < steps;) {
    looking.step();
    if (looking.number != next && looking.number != steps)
      continue;
    std::fprintf(stderr, "step %lld: %lld compilations, resident %.1f MB, %lld turns\n",
                 static_cast<long long>(looking.number), static_cast<long long>(looking.function.report().compiled),
                 residentMegabytes(), static_cast<long long>(looking.turns));
    next = looking.number < 40 ? looking.number + 13 : 2 * looking.number;
  }
  std::fprintf(stderr, "%s", looking.function.report().text().c_str());
  return 0;
}

double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// `count` breaks one after another, or `count` handles that are held over one.
void sweep(int count, bool holds, bool takesGradient) {
  Parameter weight("weight", {16});
  weight.data<float>()[0] = 1;
  double seen = 0;
  Function function = compile(
      "sweep",
      [&](Tensor x) {
        std::vector<Tensor> held;
        Tensor value = holds ? x * weight : sum(x * weight);
        for (int i = 0; i < count; ++i) {
          value = value * 0.999 + 0.001;
          if (holds)
            held.push_back(value);
          else
            seen += value.item();
        }
        if (holds)
          seen += sum(value).item();
        Tensor total = sum(value);
        for (size_t i = 0; i < held.size(); i += 16 + held.size() / 8)
          total = total + sum(held[i]);
        if (takesGradient)
          assign(weight, weight - 1e-6 * gradient(total, {weight}));
        return total;
      },
      quiet(1));
  const Array x({16});
  const auto timed = [&] {
    const double start = processorSeconds();
    function(x);
    return (processorSeconds() - start) * 1e6;
  };
  const double first = timed();
  double best = timed();
  for (int i = 0; i < 7; ++i)
    best = std::min(best, timed());
  std::printf("%5d %s%s: first call %.1f ms with %lld compilations, later ones %.2f µs each\n", count,
              holds ? "handles" : "breaks", takesGradient ? " with gradients" : "", first * 1e-3,
              static_cast<long long>(function.report().compiled), best / count);
}

} // namespace

int main(int argc, char **argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "steps" && argc == 4)
    return runSteps(std::atoll(argv[2]), std::string_view(argv[3]) == "breaks");
  if (mode == "sweep") {
    for (const bool holds : {false, true})
      for (const bool takesGradient : {false, true})
        for (const int count : {100, 300, 1000, 3000, 10000})
          sweep(count, holds, takesGradient);
    return 0;
  }
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
