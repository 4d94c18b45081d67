// Steps on the machine of stand-ins: values, eager and captured, late and early streams, what happens inside a step and
// what does not, addresses that move, several devices, memory, losses.
#include "runtime/device/cuda/step_device.h"
#include "runtime/executable.h"
#include "runtime/profiler.h"
#include "step_plan.h"
#include "tests/cuda_machine/machine_test.h"

#include <cmath>
#include <functional>
#include <thread>

namespace tcc::runtime {
namespace {

using test::columns;
using test::gpuArtefact;
using test::gpuStepPlan;
using test::inner;
using test::rows;

std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

TensorStorage storageOf(const std::vector<float> &values) {
  TensorStorage storage = *TensorStorage::allocate(static_cast<int64_t>(values.size() * 4));
  std::copy(values.begin(), values.end(), storage.as<float>().begin());
  return storage;
}

/// One training run: its states on a device, its inputs changing from step to step.
struct Training {
  explicit Training(std::shared_ptr<Device> given, ExecutableOptions options = {}, const Plan &plan = gpuStepPlan())
      : device(std::move(given)) {
    options.device = device;
    auto loaded = Executable::load(gpuArtefact(plan), options);
    EXPECT_TRUE(loaded) << loaded.error().message();
    if (loaded)
      executable = std::move(*loaded);
    w = newState(numbers(inner * columns, 5));
    b = newState(numbers(columns, 6));
  }

  DeviceMemory newState(const std::vector<float> &values) {
    auto memory = device->allocate(static_cast<int64_t>(values.size() * 4));
    EXPECT_TRUE(memory) << memory.error().message();
    if (!memory)
      return {};
    EXPECT_FALSE(device->copyIn(memory->address, values.data(), memory->bytes));
    return *memory;
  }

  Expected<std::shared_ptr<StepOutputs>> start(int step, Profiler *profiler = nullptr) {
    TensorStorage x = storageOf(numbers(rows * inner, 100 + static_cast<uint32_t>(step)));
    const auto rates = static_cast<size_t>(executable->plan().inputs[1].elements());
    TensorStorage rate = storageOf(std::vector<float>(rates, 0.01f / static_cast<float>(1 + step)));
    const ConstTensorRef inputs[] = {x.ref(), rate.ref()};
    const TensorRef states[] = {{w.address, w.bytes}, {b.address, b.bytes}};
    auto results = executable->start(inputs, states, profiler);
    std::fill(x.as<float>().begin(), x.as<float>().end(), NAN); // the host goes on with its memory
    rate.as<float>()[0] = NAN;
    return results;
  }

  float lossOf(int step) {
    auto results = start(step);
    EXPECT_TRUE(results) << results.error().message();
    return results ? readLoss(**results) : NAN;
  }

  static float readLoss(StepOutputs &outputs) {
    float loss = NAN;
    const Error error = outputs.read(0, &loss, 4);
    EXPECT_FALSE(error) << error.message();
    return loss;
  }

  std::vector<float> read(const DeviceMemory &memory) {
    std::vector<float> values(static_cast<size_t>(memory.bytes / 4));
    const Error error = device->copyOut(values.data(), memory.address, memory.bytes);
    EXPECT_FALSE(error) << error.message();
    return values;
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Executable> executable;
  DeviceMemory w, b;
};

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

class CudaStep : public machine::MachineTest {
protected:
  void SetUp() override {
    MachineTest::SetUp();
    setenv("TCC_CUBLASLT", CUBLASLT_STAND_IN, 1);
    test::stepCubin();
  }
  void TearDown() override {
    MachineTest::TearDown();
    unsetenv("TCC_CUBLASLT");
  }
  std::shared_ptr<Device> open(cuda::StepDeviceOptions options = {}) {
    auto device = cuda::openStepDevice(options);
    EXPECT_TRUE(device) << device.error().message();
    return device ? *device : nullptr;
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
  const std::size_t turn = loopPlan().instructions.size(); // its slice and what stands behind the loop
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
  test::Parameters{call}.pointer(6, true); // the gradient of w, behind which other values lie
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

TEST_F(CudaStep, CodeForAnotherChipIsRefusedWithReasons) {
  use("a100");
  const auto refused = Executable::load(gpuArtefact(gpuStepPlan()), {.device = open()});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("cuda:sm_90a: the device needs code for sm_80"), std::string::npos)
      << refused.error().message();
  use("h200");
  auto device = open();
  for (auto [target, runs] : {std::pair{"cuda:sm_90a", true},
                              {"cuda:sm_90", true},
                              {"cuda:sm_80", false},
                              {"cuda:sm_100a", false},
                              {"cuda:sm_91", false},
                              {"cuda:compute_80", true},
                              {"cuda:compute_90a", true},
                              {"cuda:compute_100", false},
                              {"cuda:compute_80a", false},
                              {"cuda:sm_", false},
                              {"cuda:sm_9x", false},
                              {"cuda:ptx", false},
                              {"cpu", false}})
    EXPECT_EQ(!device->accepts({target, {}, {}, {}}), runs) << target;
}

TEST_F(CudaStep, WhatIsMissingIsSaidOnce) {
  use("driver=11080");
  EXPECT_EQ(cuda::openStepDevice().error().message(),
            "the CUDA driver is for CUDA 11.8: one for 12.0 or later is needed, NVIDIA's 525 or newer");
  use("");
  EXPECT_NE(cuda::openStepDevice({.ordinal = 1}).error().message().find("CUDA device 1 asked for"), std::string::npos);
  setenv("TCC_CUDA_DRIVER", "/nonexistent", 1);
  EXPECT_NE(cuda::openStepDevice().error().message().find("the CUDA driver could not be opened"), std::string::npos);
  setenv("TCC_CUDA_DRIVER", TCC_MACHINE_CUDA, 1);
  setenv("TCC_CUBLASLT", "/nonexistent", 1);
  auto device = open();
  const auto refused = Executable::load(gpuArtefact(gpuStepPlan()), {.device = device});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("instruction 1 `x w`: cuBLASLt (NVIDIA's matrix products) could not be"),
            std::string::npos)
      << refused.error().message();
  setenv("TCC_CUBLASLT", CUBLASLT_STAND_IN, 1);
  EXPECT_TRUE(Executable::load(gpuArtefact(gpuStepPlan()), {.device = device}));
}

TEST_F(CudaStep, PlansOfACpuAndForLessAlignmentAreRefused) {
  auto device = open();
  Plan plan = gpuStepPlan();
  plan.alignment = 64;
  auto refused = Executable::load(gpuArtefact(plan), {.device = device});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("aligned to 64 bytes; one for a GPU to 256"), std::string::npos);
  plan = gpuStepPlan();
  plan.instructions[2].call = KernelCall{0, {}, 1};
  refused = Executable::load(gpuArtefact(plan), {.device = device});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "instruction 2 `bias relu`: it calls a kernel of a CPU; a GPU launches kernels");
}

TEST_F(CudaStep, TooLittleMemoryNamesThePlanAndItsLargestValues) {
  use("memory=20000");
  auto device = open();
  Plan plan = gpuStepPlan();
  plan.arenaBytes = 1 << 20;
  const auto refused = Executable::load(gpuArtefact(plan), {.device = device});
  ASSERT_FALSE(refused);
  const std::string text = refused.error().message();
  for (const char *part : {"OUT_OF_MEMORY", "the step `step` plans 1.1 MB: arena 1.0 MB, states 4000 bytes",
                           "the largest values: a value of `x w` 4096 bytes, state `w` 3840 bytes"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  // A step that fits runs.
  Training run(device);
  EXPECT_GT(run.lossOf(0), 0);
}

TEST_F(CudaStep, ALostDeviceClosesNamesWhatIsLostAndLeavesTheRest) {
  auto device = open();
  Training run(device);
  run.lossOf(0);
  auto pending = *run.start(1);
  Plan bad = gpuStepPlan();
  LaunchCall call;
  call.kernel = 4;
  call.block = {32, 1, 1};
  test::Parameters{call}.pointer(2, true);
  bad.instructions[0].call = call;
  auto executable = Executable::load(gpuArtefact(bad), {.device = device});
  ASSERT_TRUE(executable) << executable.error().message();
  run.executable = std::move(*executable);
  auto started = run.start(2);
  ASSERT_TRUE(started) << started.error().message();
  float loss = 0;
  const Error lost = (*started)->read(0, &loss, 4);
  ASSERT_TRUE(lost);
  EXPECT_NE(lost.message().find("is closed after: "), std::string::npos) << lost.message();
  EXPECT_TRUE(device->isClosed());
  const auto next = run.start(3);
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message().find("lost: the values of states `w`, `b` since they were last read"),
            std::string::npos)
      << next.error().message();
  EXPECT_TRUE(device->copyOut(&loss, run.w.address, 4));
  EXPECT_FALSE(device->allocate(16));
  // The CPU goes on.
  Plan host;
  host.outputs = {{"a", DType::f32, {1}}};
  host.buffers = {{Space::output, 0, 0, 4}};
  host.instructions.resize(1);
  host.instructions[0].call = FillCall{0, 0};
  auto cpu = Executable::load(cpuArtefact(host, ""));
  ASSERT_TRUE(cpu);
  TensorStorage out = *TensorStorage::allocate(4);
  const TensorRef outputs[] = {out.ref()};
  EXPECT_FALSE((*cpu)->run({}, outputs, {}));
}

/// A whole short life; its first error, or the losses.
std::string life(std::vector<float> &losses) {
  auto device = cuda::openStepDevice();
  if (!device)
    return device.error().message();
  auto executable = Executable::load(gpuArtefact(gpuStepPlan()), {.device = *device});
  if (!executable)
    return executable.error().message();
  DeviceMemory memory[2];
  TensorRef states[2];
  for (int i = 0; i < 2; ++i) {
    const auto values = numbers(i ? columns : inner * columns, i ? 6 : 5);
    auto made = (*device)->allocate(static_cast<int64_t>(values.size() * 4));
    if (!made)
      return made.error().message();
    memory[i] = *made;
    states[i] = {made->address, made->bytes};
    if (Error error = (*device)->copyIn(made->address, values.data(), made->bytes))
      return error.message();
  }
  for (int step = 0; step < 4; ++step) {
    TensorStorage x = storageOf(numbers(rows * inner, 100 + static_cast<uint32_t>(step))), rate = storageOf({0.01f});
    const ConstTensorRef inputs[] = {x.ref(), rate.ref()};
    auto results = (*executable)->start(inputs, states);
    if (!results)
      return results.error().message();
    float loss = 0;
    if (Error error = (*results)->read(0, &loss, 4))
      return error.message();
    losses.push_back(loss);
  }
  if (Error error = (*executable)->finish())
    return error.message();
  return {};
}

TEST_F(CudaStep, EachCallFailingOnceIsOneMessageAndNothingIsLost) {
  std::vector<float> expected;
  ASSERT_EQ(life(expected), "");
  std::vector<std::pair<std::string, uint64_t>> calls;
  for (size_t i = 0; const char *symbol = tccMachineSymbol(i); ++i)
    calls.emplace_back(symbol, tccMachineCalls(symbol));
  ASSERT_GT(calls.size(), 25u);
  int failures = 0;
  uint64_t leaks = 0;
  for (const auto &[symbol, count] : calls)
    for (const auto &[nth, code] : {std::pair{uint64_t{1}, ""}, {(count + 1) / 2, ":1"}, {count, ""}, {count, ":2"}}) {
      ASSERT_TRUE(tccMachineFail((symbol + ":" + std::to_string(nth) + code).c_str()));
      std::vector<float> losses;
      const std::string error = life(losses);
      failures += !error.empty();
      for (size_t i = 0; i < losses.size(); ++i)
        EXPECT_EQ(losses[i], expected[i]) << symbol << " " << nth;
      ASSERT_TRUE(tccMachineFail(""));
      EXPECT_EQ(counters().liveBuffers + counters().livePinned + counters().liveHandles, 0u)
          << symbol << " " << nth << ": " << error;
      EXPECT_EQ(counters().leaks, leaks) << symbol << " " << nth << ": " << error;
      leaks = counters().leaks;
      std::vector<float> after;
      EXPECT_EQ(life(after), "") << "after " << symbol << " " << nth;
      EXPECT_EQ(after, expected) << "after " << symbol << " " << nth;
    }
  EXPECT_GT(failures, 40);
}

} // namespace
} // namespace tcc::runtime
