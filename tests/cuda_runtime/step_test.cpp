// Steps on the machine of stand-ins: values, eager and captured, late and early streams, what happens inside a step and
// what does not, addresses that move, several devices, memory.
#include "step_training.h"

#include <functional>
#include <thread>

namespace tcc::runtime {
namespace {

/// What the steps must give, in double.
struct Oracle {
  std::vector<double> w, b;
  Oracle() {
    const auto first = numbers(inner * columns, 5), second = numbers(columns, 6);
    w.assign(first.begin(), first.end());
    b.assign(second.begin(), second.end());
  }
  double step(int number) {
    const auto x = numbers(rows * inner, 100 + static_cast<uint32_t>(number));
    const double rate = 0.01f / static_cast<float>(1 + number);
    std::vector<double> y(rows * columns);
    double loss = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double sum = b[j];
        for (int64_t k = 0; k < inner; ++k)
          sum += x[i * inner + k] * w[k * columns + j];
        loss += y[i * columns + j] = std::max(sum, 0.0);
      }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        b[j] -= rate * y[i * columns + j];
        for (int64_t k = 0; k < inner; ++k)
          w[k * columns + j] -= rate * x[i * inner + k] * y[i * columns + j];
      }
    return loss;
  }
};

TEST_F(CudaStep, EagerAndCapturedLateAndEarlyGiveEqualBitsAndTheOraclesValues) {
  std::vector<float> firstLosses, firstW, firstB;
  for (const char *settings : {"late", "early", "random,shuffled", "late,reverse,checked"})
    for (bool capture : {false, true}) {
      SCOPED_TRACE(std::string(settings) + (capture ? " captured" : " eager"));
      use(settings);
      Training run(open({.capture = capture}), {.checked = capture});
      Oracle oracle;
      std::vector<float> losses;
      for (int step = 0; step < 5; ++step) {
        losses.push_back(run.lossOf(step));
        const double expected = oracle.step(step);
        EXPECT_NEAR(losses.back(), expected, 1e-4 * expected);
      }
      const auto w = run.read(run.w), b = run.read(run.b);
      for (size_t i = 0; i < w.size(); ++i)
        ASSERT_NEAR(w[i], oracle.w[i], 1e-4);
      for (size_t i = 0; i < b.size(); ++i)
        ASSERT_NEAR(b[i], oracle.b[i], 1e-4);
      if (firstLosses.empty())
        firstLosses = losses, firstW = w, firstB = b;
      EXPECT_EQ(losses, firstLosses);
      EXPECT_EQ(w, firstW);
      EXPECT_EQ(b, firstB);
      EXPECT_EQ(report(), "");
    }
}

TEST_F(CudaStep, AStepIsOneGraphLaunchAndNothingElseHappensInside) {
  Training run(open());
  for (int step = 0; step < 2; ++step)
    run.lossOf(step); // eager, captured
  EXPECT_EQ(counters().captures, 1u);
  for (int step = 2; step < 8; ++step) {
    const auto before = counters();
    auto results = run.start(step);
    ASSERT_TRUE(results);
    EXPECT_EQ(counters().graphLaunches, before.graphLaunches + 1);
    EXPECT_EQ(counters().allocations, before.allocations);
    EXPECT_EQ(counters().pinned, before.pinned);
    // Staging waits for the copies of two steps ago, which are long done; nothing waits for the step.
    EXPECT_LE(counters().synchronizations, before.synchronizations + 1);
    EXPECT_GT(Training::readLoss(**results), 0);
  }
  EXPECT_EQ(counters().captures, 1u);
  EXPECT_EQ(counters().instantiations, 1u);
}

/// The step as a loop of two turns, each with a rate of its own that is copied from a list.
Plan loopPlan() {
  Plan plan = gpuStepPlan();
  plan.inputs[1].shape = {2};
  plan.buffers[1] = {Space::arena, 0, (plan.arenaBytes + 255) / 256 * 256, 4};
  plan.arenaBytes = plan.buffers[1].offset + 256;
  const auto list = static_cast<BufferId>(plan.buffers.size());
  plan.buffers.push_back({Space::input, 1, 0, 8});
  Instruction loop;
  loop.call = LoopCall{2, static_cast<uint32_t>(plan.instructions.size()), {{list, 1}}};
  loop.label = "turns";
  plan.instructions.insert(plan.instructions.begin(), loop);
  return plan;
}

TEST_F(CudaStep, ALoopIsIssuedOnceATurn) {
  Training run(open(), {}, loopPlan());
  Oracle oracle;
  for (int step = 0; step < 4; ++step) { // eager, captured, launched
    oracle.step(step);
    EXPECT_NEAR(run.lossOf(step), oracle.step(step), 1e-3) << step;
  }
  EXPECT_EQ(counters().captures, 1u);
  Profiler profiler;
  ASSERT_TRUE(run.start(4, &profiler));
  EXPECT_EQ(profiler.all().size(), 2 * loopPlan().instructions.size() + 1);
  EXPECT_EQ(report(), "");
}

TEST_F(CudaStep, AStepOfVeryManyLaunchesIsNotCaptured) {
  const std::size_t turn = loopPlan().instructions.size(); // its slice and what comes after the loop
  for (const bool fits : {true, false}) {
    Training run(open({.mostCaptured = 2 * turn - (fits ? 0 : 1)}), {}, loopPlan());
    Oracle oracle;
    const auto before = counters().captures;
    for (int step = 0; step < 3; ++step) {
      oracle.step(step);
      EXPECT_NEAR(run.lossOf(step), oracle.step(step), 1e-3) << step;
    }
    EXPECT_EQ(counters().captures - before, fits ? 1u : 0u);
  }
}

TEST_F(CudaStep, ABranchIsRefused) {
  Plan plan = loopPlan();
  plan.buffers.push_back({Space::input, 0, 0, 1});
  plan.instructions[0].call = BranchCall{static_cast<BufferId>(plan.buffers.size() - 1), 1, 0};
  auto refused = Executable::load(gpuArtefact(plan), {.device = open()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "instruction 0 `turns`: it branches on a value in memory, which a CPU does; a GPU "
            "computes both and selects");
}

TEST_F(CudaStep, ALossIsReadWhileTheNextStepWaits) {
  std::vector<float> expected;
  {
    Training run(open());
    for (int step = 0; step < 10; ++step)
      expected.push_back(run.lossOf(step));
  }
  use("late"); // what nobody waits for does not run
  Training run(open());
  std::vector<std::shared_ptr<StepOutputs>> held;
  held.push_back(*run.start(0));
  for (int step = 1; step < 10; ++step) {
    held.push_back(*run.start(step));
    const auto before = counters().operations;
    EXPECT_EQ(Training::readLoss(*held[static_cast<size_t>(step) - 1]), expected[static_cast<size_t>(step) - 1]);
    const auto ran = counters().operations - before;
    const auto all = counters().operations;
    EXPECT_FALSE(run.executable->finish());
    EXPECT_GT(counters().operations, all) << "step " << step << " had run with the one before it, " << ran;
  }
  // More than the ring has places for: the older ones moved to the heap.
  for (size_t step = 0; step < held.size(); ++step) {
    EXPECT_EQ(Training::readLoss(*held[step]), expected[step]);
    std::vector<float> y(rows * columns);
    ASSERT_FALSE(held[step]->read(1, y.data(), rows * columns * 4));
    float sum = 0;
    for (float value : y)
      sum += value;
    EXPECT_EQ(sum, expected[step]);
  }
  EXPECT_TRUE(held[0]->read(0, expected.data(), 8));
  EXPECT_TRUE(held[0]->read(2, expected.data(), 4));
}

// Three steps that nobody waits for need three steps' inputs in two buffers: the third has to wait for the first.
TEST_F(CudaStep, InputsOfStepsThatWaitStayTheirs) {
  std::vector<float> expected;
  {
    Training run(open());
    for (int step = 0; step < 4; ++step)
      expected.push_back(run.lossOf(step));
  }
  use("late");
  Training run(open());
  std::vector<std::shared_ptr<StepOutputs>> held;
  for (int step = 0; step < 4; ++step)
    held.push_back(*run.start(step));
  for (size_t step = 0; step < 4; ++step)
    EXPECT_EQ(Training::readLoss(*held[step]), expected[step]);
}

TEST_F(CudaStep, OutputsOutliveProgramAndDevice) {
  std::shared_ptr<StepOutputs> outputs;
  float expected = 0;
  {
    Training run(open());
    outputs = *run.start(0);
    Training other(open());
    expected = other.lossOf(0);
  }
  EXPECT_EQ(Training::readLoss(*outputs), expected);
}

TEST_F(CudaStep, PlannedBytesAreAllocatedBytes) {
  Training run(open());
  run.lossOf(0);
  run.lossOf(1);
  EXPECT_EQ(run.device->allocatedBytes(), gpuStepPlan().plannedBytes());
  EXPECT_EQ(static_cast<int64_t>(counters().liveBytes), gpuStepPlan().plannedBytes());
  EXPECT_EQ(run.executable->peakBytes(), run.executable->plannedBytes());
}

// A graph holds addresses: when a state moves, the next step must not write where it was.
TEST_F(CudaStep, StatesThatMoveAreFollowed) {
  Training run(open());
  std::vector<float> straight;
  for (int step = 0; step < 6; ++step)
    straight.push_back(run.lossOf(step));
  Training moving(open());
  for (int step = 0; step < 6; ++step) {
    if (step % 3 == 2) {
      const DeviceMemory old = moving.w;
      const auto values = moving.read(old);
      moving.w = moving.newState(values);
      EXPECT_EQ(moving.lossOf(step), straight[static_cast<size_t>(step)]);
      EXPECT_EQ(moving.read(old), values) << "the old place was written";
      continue;
    }
    EXPECT_EQ(moving.lossOf(step), straight[static_cast<size_t>(step)]);
  }
  EXPECT_EQ(moving.read(moving.w), run.read(run.w));
}

// Planted: memory that a captured graph still names is released. Nobody could see it by the addresses, which are the
// same.
TEST_F(CudaStep, AStaleAddressInAGraphIsFound) {
  Training run(open());
  for (int step = 0; step < 3; ++step)
    run.lossOf(step);
  EXPECT_EQ(counters().graphLaunches, 2u);
  const TensorRef states[] = {{run.w.address, run.w.bytes}, {run.b.address, run.b.bytes}};
  run.w = {};
  const TensorStorage x = storageOf(numbers(rows * inner, 103)), rate = storageOf({0.01f});
  const ConstTensorRef inputs[] = {x.ref(), rate.ref()};
  auto started = run.executable->start(inputs, states);
  const Error error = started ? run.executable->finish() : started.error();
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("is closed after: "), std::string::npos) << error.message();
  EXPECT_NE(report(), "");
}

/// What a plan that is wrong by one change gives it away by; empty where nothing does.
std::string evidence(const Plan &plan, const std::shared_ptr<Device> &device) {
  auto executable = Executable::load(gpuArtefact(plan), {.device = device});
  if (!executable)
    return executable.error().message();
  Training run(device);
  run.executable = std::move(*executable);
  Oracle oracle;
  for (int step = 0; step < 3; ++step) {
    const double expected = oracle.step(step);
    auto started = run.start(step);
    if (!started)
      return started.error().message();
    float loss = NAN;
    if (Error error = (*started)->read(0, &loss, 4))
      return error.message();
    if (!(std::fabs(loss - expected) <= 1e-4 * (1 + std::fabs(expected))))
      return "another loss";
  }
  return {};
}

TEST_F(CudaStep, PlantedFaultsAreCaught) {
  struct Fault {
    const char *name, *evidence;
    std::function<void(Plan &)> plant;
  };
  auto product = [](Plan &plan, size_t i) -> MatmulCall & { return std::get<MatmulCall>(plan.instructions[i].call); };
  auto extent = [](Plan &plan, size_t at, int64_t value) { std::memcpy(&plan.tables[0].bytes[at], &value, 8); };
  const Fault faults[] = {
      {"none", "", [](Plan &) {}},
      {"operands of a product exchanged", "instruction 1 `x w`",
       [&](Plan &plan) { std::swap(product(plan, 1).a, product(plan, 1).b); }},
      {"operands exchanged with their layouts", "another loss",
       [&](Plan &plan) { // y^T x, of as many elements as x^T y
         MatmulCall &call = product(plan, 3);
         call.desc.m = columns, call.desc.n = inner;
         call.desc.a = {DType::f32, 1, columns, {}}, call.desc.b = {DType::f32, inner, 1, {}};
         call.desc.c = {DType::f32, inner, 1, {}};
         std::swap(call.a, call.b);
       }},
      {"an operand that is not transposed", "another loss",
       [&](Plan &plan) { product(plan, 3).desc.a = {DType::f32, inner / 3, 1, {}}; }},
      {"a product that adds up", "another loss", [&](Plan &plan) { product(plan, 3).desc.accumulate = true; }},
      {"a segment that ends too early", "another loss", [&](Plan &plan) { extent(plan, 16, inner * columns - 64); }},
      {"a segment that ends too late",
       "is closed after: ", [&](Plan &plan) { extent(plan, 16, inner * columns + 64); }},
      {"sums that are not set to zero", "another loss",
       [](Plan &plan) { plan.instructions.erase(plan.instructions.begin()); }},
      {"an update in front of what reads its gradient", "another loss",
       [](Plan &plan) { std::swap(plan.instructions[4], plan.instructions[6]); }},
  };
  for (const Fault &fault : faults)
    for (const char *settings : {"late,checked", "early,checked"}) {
      use(settings);
      Plan plan = gpuStepPlan();
      fault.plant(plan);
      const std::string found = evidence(plan, open());
      if (*fault.evidence)
        EXPECT_NE(found.find(fault.evidence), std::string::npos) << fault.name << ": " << found;
      else
        EXPECT_EQ(found, "") << fault.name;
    }
}

TEST_F(CudaStep, AGrowingArenaIsFollowedByThoseWhoShareIt) {
  Training run(open());
  std::vector<float> straight;
  for (int step = 0; step < 6; ++step)
    straight.push_back(run.lossOf(step));
  Training first(open());
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(first.lossOf(step), straight[static_cast<size_t>(step)]);
  Plan larger = gpuStepPlan();
  larger.arenaBytes += 102400;
  for (Buffer &buffer : larger.buffers)
    if (buffer.space == Space::arena)
      buffer.offset += 102400;
  auto second = Executable::load(gpuArtefact(larger), {.device = first.device});
  ASSERT_TRUE(second) << second.error().message();
  for (int step = 3; step < 6; ++step) { // each in turn
    EXPECT_EQ(first.lossOf(step), straight[static_cast<size_t>(step)]);
    std::swap(first.executable, *second);
  }
  EXPECT_EQ(first.read(first.w), run.read(run.w));
  EXPECT_EQ(report(), "");
}

// A value of the arena that is overrun ends in the next one, and nobody sees it, unless it has memory of its own.
TEST_F(CudaStep, ValuesInMemoryOfTheirOwn) {
  Training together(open()), apart(open(), {.separate = true});
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(together.lossOf(step), apart.lossOf(step));
  EXPECT_EQ(together.read(together.w), apart.read(apart.w));
  EXPECT_EQ(report(), "");
  Plan plan = gpuStepPlan();
  LaunchCall call;
  call.kernel = 4;
  call.block = {32, 1, 1};
  test::Parameters{call}.pointer(6, true); // the gradient of w; other values lie after it
  plan.instructions.resize(1);
  plan.instructions[0].call = call;
  for (bool separate : {false, true}) {
    auto executable = Executable::load(gpuArtefact(plan), {.device = together.device, .separate = separate});
    ASSERT_TRUE(executable) << executable.error().message();
    std::swap(together.executable, *executable);
    EXPECT_TRUE(together.start(0));
    EXPECT_EQ(bool(together.executable->finish()), separate);
  }
}

// Blocks that loop over items are as many as the device has multiprocessors.
TEST_F(CudaStep, BlocksThatLoopAreOneForEachMultiprocessor) {
  constexpr int multiprocessors = 132;
  Training run(open());
  Plan plan = gpuStepPlan();
  plan.instructions.resize(1);
  for (const auto &[loops, items] : {std::pair(true, 1000), {true, 20}, {false, 1000}}) {
    LaunchCall call;
    call.kernel = 5;
    call.grid = {items, 1, 1};
    call.block = {32, 1, 1};
    call.loops = loops;
    test::Parameters{call}.pointer(9, true); // the loss
    plan.instructions[0].call = call;
    auto executable = Executable::load(gpuArtefact(plan), {.device = run.device});
    ASSERT_TRUE(executable) << executable.error().message();
    std::swap(run.executable, *executable);
    EXPECT_EQ(run.lossOf(0), static_cast<float>(loops ? std::min(items, multiprocessors) : items));
  }
}

TEST_F(CudaStep, HostTensorsGoThereAndBack) {
  Training run(open());
  const float expected = run.lossOf(0);
  auto executable = Executable::load(gpuArtefact(gpuStepPlan()), {.device = run.device});
  ASSERT_TRUE(executable);
  const TensorStorage x = storageOf(numbers(rows * inner, 100)), rate = storageOf({0.01f});
  TensorStorage w = storageOf(numbers(inner * columns, 5)), b = storageOf(numbers(columns, 6));
  TensorStorage loss = *TensorStorage::zeros(4), y = *TensorStorage::zeros(rows * columns * 4);
  const ConstTensorRef inputs[] = {x.ref(), rate.ref()};
  const TensorRef outputs[] = {loss.ref(), y.ref()}, states[] = {w.ref(), b.ref()};
  ASSERT_FALSE((*executable)->run(inputs, outputs, states));
  EXPECT_EQ(loss.as<float>()[0], expected);
  const auto after = run.read(run.w);
  EXPECT_TRUE(std::equal(after.begin(), after.end(), w.as<float>().begin()));
}

TEST_F(CudaStep, TwoDevicesAndTheCpuSideBySide) {
  use("late,devices=2");
  Training first(open()), second(open({.ordinal = 1}));
  EXPECT_EQ(second.device->name().substr(0, 6), "cuda:1");
  std::vector<float> losses(3, NAN);
  std::thread other([&] { // a thread of its own for one of them
    for (int step = 0; step < 3; ++step)
      losses[static_cast<size_t>(step)] = second.lossOf(step);
  });
  for (int step = 0; step < 3; ++step)
    first.lossOf(step);
  other.join();
  EXPECT_EQ(first.read(first.w), second.read(second.w));
  EXPECT_EQ(report(), "");
}

TEST_F(CudaStep, AProfileHasEachLaunchWithTimeBytesAndFlops) {
  Training run(open());
  Profiler profiler;
  ASSERT_TRUE(run.start(0, &profiler));
  const auto events = profiler.all();
  ASSERT_EQ(events.size(), gpuStepPlan().instructions.size() + 1);
  EXPECT_EQ(events[0].category, "fill");
  EXPECT_EQ(events[1].category, "matmul");
  EXPECT_EQ(events[1].flops, 2 * rows * columns * inner);
  EXPECT_EQ(events[2].label, "bias relu");
  EXPECT_EQ(events[2].bytes, 2 * rows * columns * 4);
  EXPECT_EQ(events.back().category, "step");
  for (size_t i = 1; i + 1 < events.size(); ++i)
    EXPECT_EQ(events[i].startNs, events[i - 1].startNs + events[i - 1].durationNs);
  // A profiled step is a step: what follows is what follows it.
  Training plain(open());
  plain.lossOf(0);
  EXPECT_EQ(run.lossOf(1), plain.lossOf(1));
}

} // namespace
} // namespace tcc::runtime
