// A step that the host looks into while it waits, on the machine of stand-ins: what runs, and what comes out.
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/frontend/quiet_functions.h"
#include <gtest/gtest.h>
#include <stdexcept>

namespace tcc {
namespace {

/// A layer that is trained with a rate which the loss decides, on the host or in the graph.
struct Descent {
  Parameter w{"w", {6, 4}}, b{"b", {4}};
  bool asks;
  double seen = 0;
  bool fails = false;
  Function step;

  Descent(bool asks, FunctionOptions options)
      : asks(asks), step(compile(
                        "descent",
                        [this](Tensor x, Tensor target) {
                          const Tensor error = tanh(nn::linear(x, {w, b})) - target, loss = mean(error * error);
                          if (this->asks) {
                            seen = loss.item();
                            if (fails)
                              throw std::runtime_error("enough");
                          }
                          const Tensor wrt[] = {w, b};
                          const std::vector<Tensor> gradients = gradient(loss, wrt);
                          assign(w, w - 0.5 * gradients[0]);
                          assign(b, b - 0.5 * gradients[1]);
                          return loss;
                        },
                        std::move(options))) {
    for (size_t i = 0; i < 24; ++i)
      w.data<float>()[i] = 0.05f * static_cast<float>(static_cast<int>(i * 5 % 11) - 5);
  }
  Descent(const Descent &) = delete;

  double operator()(int number) {
    const auto shift = 0.01f * static_cast<float>(number);
    return step(sequence({5, 6}, -1 + shift, 0.07f), sequence({5, 4}, 0.9f, -0.08f))[0].item();
  }
  std::vector<float> weights() const {
    const auto values = w.read<float>();
    return {values.begin(), values.end()};
  }
};

class CudaBreaks : public machine::MachineTest {
protected:
  static FunctionOptions onMachine() {
    auto device = runtime::cuda::openStepDevice({});
    EXPECT_TRUE(device) << device.error().message();
    FunctionOptions options = quiet();
    options.device = device ? *device : nullptr;
    return options;
  }
};

TEST_F(CudaBreaks, TheStepWaitsAndComputesNothingTwice) {
  for (const char *settings : {"late,checked", "early"}) {
    use(settings);
    Descent here(false, quiet()), plain(false, onMachine()), asks(true, onMachine());
    std::uint64_t plainLaunches = 0, askedLaunches = 0;
    for (int number = 0; number < 6; ++number) {
      const double expected = here(number);
      auto before = counters();
      EXPECT_NEAR(plain(number), expected, 1e-5 * expected);
      plainLaunches = counters().launches - before.launches;
      before = counters();
      EXPECT_NEAR(asks(number), expected, 1e-5 * expected);
      askedLaunches = counters().launches - before.launches;
      EXPECT_NEAR(asks.seen, expected, 1e-5 * expected);
      if (number < 4) // compiled, run, run eagerly in parts, captured
        continue;
      EXPECT_EQ(counters().graphLaunches - before.graphLaunches, 2u) << number;
      EXPECT_EQ(counters().captures, before.captures);
      EXPECT_EQ(counters().allocations, before.allocations);
    }
    EXPECT_LE(askedLaunches, plainLaunches + 2) << "nothing joins what is before and after the break";
    for (size_t i = 0; i < 24; ++i)
      EXPECT_NEAR(asks.weights()[i], here.weights()[i], 1e-5) << i;
    const BreakReport report = asks.step.report();
    ASSERT_EQ(report.sites.size(), 1u);
    EXPECT_EQ(report.sites[0].inStep, 5) << "all but the first";
    EXPECT_EQ(machine::MachineTest::report(), "");
  }
}

TEST_F(CudaBreaks, AnExceptionWhileItWaitsLeavesStatesAsTheyWere) {
  use("late,checked");
  Descent asks(true, onMachine());
  for (int number = 0; number < 5; ++number) {
    asks(number);
    const std::vector<float> before = asks.weights();
    asks.fails = true;
    EXPECT_THROW(asks(number + 1), std::runtime_error);
    asks.fails = false;
    EXPECT_EQ(asks.weights(), before) << number;
  }
}

TEST_F(CudaBreaks, AnotherStepOnTheDeviceMeanwhileChangesNothing) {
  use("late,checked");
  FunctionOptions shared = onMachine();
  Descent here(false, quiet()), asks(true, shared);
  Function other = compile("other", [](Tensor x) { return sum(matmul(x, x)); }, shared);
  for (int number = 0; number < 5; ++number) {
    here(number);
    asks(number);
    other(sequence({64, 64}, 0, 0.001f))[0].item();
  }
  for (size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(asks.weights()[i], here.weights()[i], 1e-5) << i;
}

} // namespace
} // namespace tcc
