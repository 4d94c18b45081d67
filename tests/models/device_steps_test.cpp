// The preset `baby` on the machine of stand-ins: twenty steps, captured and not, on late and early streams, and each
// value in memory of its own. Equal bits, the CPU's losses, and nothing beside one graph launch in a step.
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/models/training_step.h"
#include "tests/state_bytes.h"

#include <cstdlib>
#include <functional>

namespace tcc::models {
namespace {

/// TCC_FULL=1: the preset's own size.
const bool full = std::getenv("TCC_FULL") != nullptr;
const int64_t rows = full ? 2 : 1, sequence = full ? 64 : 16;

ModelConfig baby() {
  ModelConfig config = *modelPreset("baby");
  std::get<Gpt2Config>(config.kind).sequence = sequence;
  return config;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::string weights;
};

class BabyOnDevice : public machine::MachineTest {
protected:
  /// Trains for `steps`; null is the CPU. `after` sees each step once it has been started, before its loss is read.
  static Outcome train(const std::shared_ptr<runtime::Device> &device, int steps,
                       const std::function<void(int)> &after = {}, bool separate = false) {
    Model model(baby());
    model.initialize(7);
    optim::Adamw optimizer(model.parameters(), {.clip = 1});
    FunctionOptions options;
    options.device = device;
    options.separate = separate;
    options.report = [](std::string_view) {};
    Function step = test::compiledTrainingStep(model, optimizer, options);
    Outcome outcome;
    for (int i = 0; i < steps; ++i) {
      Array tokens({rows, sequence}, DType::i32), targets({rows, sequence}, DType::i32);
      for (int64_t j = 0; j < rows * sequence; ++j) {
        tokens.data<int32_t>()[size_t(j)] = int32_t((i * 31 + j * j * 7) % 256);
        targets.data<int32_t>()[size_t(j)] = int32_t((i * 31 + (j + 1) * (j + 1) * 7) % 256);
      }
      const std::vector<Array> results = step(tokens, targets, Array(1e-3f), Array(float(i + 1)));
      if (after)
        after(i);
      outcome.losses.push_back(results[0].item());
      outcome.norms.push_back(results[1].item());
    }
    outcome.weights = test::bytesOf(model.parameters());
    return outcome;
  }

  static std::shared_ptr<runtime::Device> open(bool capture) {
    auto device = runtime::cuda::openStepDevice({.capture = capture});
    EXPECT_TRUE(device) << device.error().message();
    return device ? *device : nullptr;
  }
};

void expectBeginsLike(const Outcome &shorter, const Outcome &longer) {
  ASSERT_LE(shorter.losses.size(), longer.losses.size());
  for (size_t i = 0; i < shorter.losses.size(); ++i) {
    EXPECT_EQ(shorter.losses[i], longer.losses[i]) << "loss of step " << i;
    EXPECT_EQ(shorter.norms[i], longer.norms[i]) << "norm of step " << i;
  }
}

TEST_F(BabyOnDevice, capturedOrNotLateOrEarlyTheBitsAreEqual) {
  constexpr int steps = 20, eager = 3;
  const Outcome cpu = train(nullptr, steps);
  use("late");
  TccMachineCounters before;
  const Outcome late = train(open(true), steps, [&](int step) {
    if (step >= 2) { // the first is eager, the second is captured
      EXPECT_EQ(counters().graphLaunches, before.graphLaunches + 1) << "step " << step;
      EXPECT_EQ(counters().captures, before.captures) << "step " << step;
      EXPECT_EQ(counters().instantiations, before.instantiations) << "step " << step;
      EXPECT_EQ(counters().allocations, before.allocations) << "step " << step;
      EXPECT_EQ(counters().pinned, before.pinned) << "step " << step;
      EXPECT_EQ(counters().moduleLoads, before.moduleLoads) << "step " << step;
      // Reading the loss waits once; filling a staging buffer again waits for the copies of two steps ago.
      EXPECT_LE(counters().synchronizations, before.synchronizations + 2) << "step " << step;
    }
    before = counters();
  });
  EXPECT_EQ(counters().captures, 1u);
  EXPECT_EQ(counters().graphLaunches, uint64_t(steps - 1));
  EXPECT_EQ(report(), "");
  for (int i = 0; i < steps; ++i)
    EXPECT_NEAR(late.losses[size_t(i)], cpu.losses[size_t(i)], 1e-3 * cpu.losses[size_t(i)]) << "step " << i;
  EXPECT_NE(late.losses.back(), late.losses.front());

  use("early");
  const Outcome early = train(open(true), steps);
  EXPECT_EQ(early.losses, late.losses);
  EXPECT_EQ(early.norms, late.norms);
  EXPECT_TRUE(early.weights == late.weights);
  for (const char *streams : {"late", "early,reverse"}) {
    SCOPED_TRACE(streams);
    use(streams);
    const Outcome plain = train(open(false), eager);
    expectBeginsLike(plain, late);
    EXPECT_EQ(counters().graphLaunches, 0u);
  }
}

TEST_F(BabyOnDevice, eachValueInGuardedMemoryOfItsOwnHasTheSameBits) {
  constexpr int steps = 3;
  use("late,checked");
  const Outcome together = train(open(true), steps), apart = train(open(true), steps, {}, true);
  EXPECT_EQ(apart.losses, together.losses);
  EXPECT_EQ(apart.norms, together.norms);
  EXPECT_TRUE(apart.weights == together.weights);
  EXPECT_EQ(report(), "");
  const Outcome cpu = train(nullptr, steps), cpuApart = train(nullptr, steps, {}, true);
  EXPECT_EQ(cpuApart.losses, cpu.losses);
  EXPECT_TRUE(cpuApart.weights == cpu.weights);
}

} // namespace
} // namespace tcc::models
