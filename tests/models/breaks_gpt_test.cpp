// A small GPT whose training step asks for its loss, prints it, branches on it and loops by it, against the same step
// without a break: losses, number of compilations, report.
#include "models/counter_random.h"
#include "models/model.h"

#include <array>
#include <cmath>
#include <gtest/gtest.h>

namespace tcc::models {
namespace {

constexpr Gpt2Config tiny{.layers = 2, .heads = 2, .width = 12, .sequence = 8, .vocab = 11};
constexpr int64_t batch = 2;

FunctionOptions quiet() {
  FunctionOptions options;
  options.threads = 1;
  options.report = [](std::string_view) {};
  return options;
}

Array someTokens(uint64_t seed, uint64_t stream) {
  std::vector<int32_t> values;
  for (uint64_t i = 0; i < batch * 8; ++i)
    values.push_back(int32_t(boundedBits(randomBits(seed, stream, i), tiny.vocab)));
  return Array::of(std::span<const int32_t>(values), {batch, 8});
}

/// Trains on the loss, or on half of it where it is above `limit`; halves it on the host's side until it is at most
/// `bound`.
struct Training {
  bool breaks;
  Model model{tiny};
  optim::Adamw optimizer{model.parameters()};
  double seen = 0;
  std::array<double, 3> last{}; // losses, by batch
  int64_t turns = 0, taken = 0;
  bool prints = false;
  Function function;

  explicit Training(bool breaks)
      : breaks(breaks),
        function(compile(
            "training_step",
            [this](Tensor tokens, Tensor targets, Tensor lr, Tensor step, Tensor limit, Tensor bound) {
              const Tensor loss = modelLoss(model, tokens, targets);
              Tensor trained = loss;
              if (this->breaks)
                trained = ask(loss, limit, bound);
              else
                trained = select(loss > limit, loss * 0.5, loss);
              return std::pair{loss, optimizer.step(trained, gradient(trained, model.parameters()), lr, step).norm};
            },
            quiet())) {
    model.initialize(5);
  }
  Training(const Training &) = delete;

  Tensor ask(const Tensor &loss, const Tensor &limit, const Tensor &bound) {
    seen = loss.item();
    if (prints)
      print("loss", loss);
    turns = 0;
    for (Tensor left = loss; left > bound; left = left * 0.5)
      ++turns;
    if (!(loss > limit))
      return loss;
    ++taken;
    return loss * 0.5;
  }

  double operator()(int number, double limit, double bound, double lr = 0.01) {
    const auto seed = static_cast<size_t>(number % 3);
    const Array step(static_cast<float>(number)), rate(static_cast<float>(lr));
    return last[seed] = function(someTokens(seed, 1), someTokens(seed, 2), rate, step, static_cast<float>(limit),
                                 static_cast<float>(bound))[0]
                            .item();
  }
};

TEST(BreaksGpt, TrainsAsWithoutAndCompilesNoMore) {
  Training plain(false), asks(true);
  for (int number = 1; number <= 50; ++number) {
    const int64_t turns = number <= 25 ? 3 : 7;
    double expected = 0;
    // Above the limit every third step; the loss is 2^turns halvings from the bound, between two powers.
    const double before = plain(number, number % 3 == 0 ? 0 : 100, 1);
    expected = before;
    asks.prints = number == 50;
    testing::internal::CaptureStdout();
    const double loss = asks(number, number % 3 == 0 ? 0 : 100, 1.4 * before / double(1 << turns));
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_NEAR(loss, expected, 2e-5 * expected) << number;
    EXPECT_EQ(static_cast<float>(asks.seen), static_cast<float>(loss));
    EXPECT_EQ(asks.turns, turns) << number;
    EXPECT_EQ(text.empty(), !asks.prints);
  }
  EXPECT_EQ(asks.taken, 16);
  asks.prints = false;
  const auto block = [&](int from, int count) {
    for (int number = from; number < from + count; ++number) {
      const double bound = asks.last[static_cast<size_t>(number % 3)] / double(number % 20 < 10 ? 8 : 128) * 1.4;
      asks(number, number % 3 == 0 ? 0 : 100, bound, 1e-5);
    }
  };
  block(51, 60);
  const int64_t compiled = asks.function.counters().cache.misses;
  block(111, 1000);
  EXPECT_EQ(asks.function.counters().cache.misses, compiled);
  EXPECT_LE(compiled, 9) << "the loss, the turns, the branch, and four ways through the step";
  const BreakReport report = asks.function.report();
  EXPECT_EQ(report.sites.size(), 4u) << report.text();
  EXPECT_EQ(report.compiled, asks.function.counters().cache.misses);
  EXPECT_EQ(report.calls, 1110);
}

} // namespace
} // namespace tcc::models
