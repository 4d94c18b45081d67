// A whole training step, compiled for a GPU from the same C++ as for the CPU, on the machine of stand-ins: matmuls,
// fused kernels, column sums, the global norm and AdamW; eager and captured, late and early streams.
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/state_bytes.h"
#include <cstring>
#include <tcc/tcc.h>

namespace tcc {
namespace {

using machine::MachineTest;

constexpr int64_t batch = 32, inputs = 24, hidden = 80;
constexpr int steps = 6;

std::vector<float> numbers(int64_t count, uint32_t seed, float scale) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back((static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f) * scale);
  }
  return values;
}

struct TrainingRun {
  std::vector<float> losses, norms, weights, scaling;
  std::string report;                        // of the compiler
  std::string beforeOverflow, afterOverflow; // bytes of a weight and of all moments
};

std::string bytesOf(const Parameter &weight, const optim::Optimizer &optimizer) {
  std::vector<State> states = optimizer.states();
  states.push_back(weight);
  return test::bytesOf(states);
}

struct Variant {
  runtime::DType products = runtime::DType::f32;
  int overflow = 0; // the step whose inputs are beyond f16
  int64_t classes = 10;
  std::array<std::optional<int64_t>, 2> padding = {}; // -fpad of odd and even steps: two functions over the same states
};

/// Trains a perceptron of two layers for a few steps on a device; null: the CPU, which stores 16-bit activations where
/// the GPU does.
TrainingRun train(std::shared_ptr<runtime::Device> device, Variant variant = {}) {
  const int64_t classes = variant.classes;
  Parameter w1("w1", {inputs, hidden}), b1("b1", {hidden}), w2("w2", {hidden, classes}), b2("b2", {classes});
  uint32_t seed = 1;
  for (Parameter *parameter : {&w1, &b1, &w2, &b2}) {
    std::span<float> data = parameter->data<float>();
    std::vector<float> values = numbers(static_cast<int64_t>(data.size()), seed++, 0.2f);
    std::copy(values.begin(), values.end(), data.begin());
  }
  optim::Adamw optimizer({w1, b1, w2, b2}, {.weightDecay = 0.1, .clip = 0.5});
  FunctionOptions options;
  options.inputs = {"x", "targets", "lr", "step"};
  options.device = device;
  options.products = variant.products;
  options.passes["narrow-activations"] = true;
  TrainingRun run;
  options.remarksPassed = "pad-shapes";
  options.report = [&](std::string_view text) { run.report += text; };
  auto compiled = [&](std::optional<int64_t> padding) {
    options.padding = padding;
    return compile(
        "train",
        [&](Tensor x, Tensor targets, Tensor lr, Tensor number) {
          Tensor loss = crossEntropy(nn::mlp(x, {w1, b1}, {w2, b2}), targets);
          std::vector<Tensor> gradients = gradient(loss, optimizer.parameters());
          auto [norm, applied] = optimizer.step(loss, gradients, lr, number);
          return std::pair{loss, norm};
        },
        options);
  };
  std::vector<Function> functions;
  for (std::optional<int64_t> padding : variant.padding)
    if (functions.empty() || padding != variant.padding[0])
      functions.push_back(compiled(padding));
  for (int number = 1; number <= steps; ++number) {
    Function &step = functions[number % functions.size()];
    std::vector<int32_t> targets;
    for (int64_t i = 0; i < batch; ++i)
      targets.push_back(static_cast<int32_t>((i * 7) % classes));
    Array x = Array::of(numbers(batch * inputs, 100, number == variant.overflow ? 1e6f : 1.0f), {batch, inputs});
    std::vector<Array> results = step(x, Array::of(targets, {batch}), Array(0.01f), Array(static_cast<float>(number)));
    run.losses.push_back(static_cast<float>(results[0].item()));
    run.norms.push_back(static_cast<float>(results[1].item()));
    if (number == variant.overflow - 1)
      run.beforeOverflow = bytesOf(w1, optimizer);
    else if (number == variant.overflow)
      run.afterOverflow = bytesOf(w1, optimizer);
  }
  for (const State &state : functions[0].lossScaling())
    run.scaling.push_back(state.read<float>()[0]);
  for (const Parameter *parameter : {&w1, &b1, &w2, &b2}) {
    std::span<const float> values = parameter->read<float>();
    run.weights.insert(run.weights.end(), values.begin(), values.end());
  }
  return run;
}

class CudaStep : public MachineTest {
protected:
  static TrainingRun trainOnMachine(bool capture, Variant variant = {}) {
    runtime::cuda::StepDeviceOptions options;
    options.capture = capture;
    auto device = runtime::cuda::openStepDevice(options);
    EXPECT_TRUE(device) << device.error().message();
    return device ? train(*device, variant) : TrainingRun();
  }
};

void expectSameBits(const TrainingRun &a, const TrainingRun &b, const char *what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  ASSERT_EQ(a.weights.size(), b.weights.size()) << what;
  EXPECT_EQ(std::memcmp(a.weights.data(), b.weights.data(), 4 * a.weights.size()), 0) << what;
}

TEST_F(CudaStep, trainsAsTheCpuDoes) {
  TrainingRun cpu = train(nullptr);
  use("late,checked");
  TrainingRun gpu = trainOnMachine(true);
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  EXPECT_LT(cpu.losses.back(), cpu.losses.front());
  for (int i = 0; i < steps; ++i) {
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 2e-5) << "step " << i + 1;
    EXPECT_NEAR(gpu.norms[i], cpu.norms[i], 2e-5 * cpu.norms[i]) << "step " << i + 1;
  }
  for (size_t i = 0; i < cpu.weights.size(); ++i)
    ASSERT_NEAR(gpu.weights[i], cpu.weights[i], 2e-4) << "weight " << i;
}

TEST_F(CudaStep, trainsAsTheCpuDoesInSixteenBits) {
  for (runtime::DType products : {runtime::DType::bf16, runtime::DType::f16}) {
    TrainingRun cpu = train(nullptr, {products});
    use("late,checked");
    TrainingRun gpu = trainOnMachine(true, {products});
    ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
    for (int i = 0; i < steps; ++i) { // sums of another order, which 16 bits round to neighbours now and then
      EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 1e-3) << runtime::name(products) << ", step " << i + 1;
      EXPECT_NEAR(gpu.norms[i], cpu.norms[i], 1e-2 * cpu.norms[i]) << runtime::name(products) << ", step " << i + 1;
    }
    EXPECT_EQ(gpu.scaling, cpu.scaling);
  }
}

/// 251 classes are 256 in every matmul; parameters and moments, which both functions of the last variant update in
/// turn, keep their sizes and values.
TEST_F(CudaStep, paddingIsNeverSeen) {
  use("late,checked");
  for (bool onGpu : {false, true}) {
    auto trained = [&](std::array<std::optional<int64_t>, 2> padding) {
      const Variant variant{runtime::DType::bf16, 0, 251, padding};
      return onGpu ? trainOnMachine(true, variant) : train(nullptr, variant);
    };
    const TrainingRun plain = trained({0, 0});
    ASSERT_EQ(plain.losses.size(), static_cast<size_t>(steps));
    EXPECT_LT(plain.losses.back(), plain.losses.front());
    for (std::array<std::optional<int64_t>, 2> padding : {std::array<std::optional<int64_t>, 2>{8, 8}, {64, 0}}) {
      const TrainingRun padded = trained(padding);
      EXPECT_NE(padded.report.find("and 2 more products is computed as 256"), std::string::npos) << padded.report;
      // Sums of another order, which 16 bits round to neighbours now and then. A GPU multiplies by GELU's slopes before
      // it rounds only where rows are whole 16 bytes.
      for (int i = 0; i < steps; ++i) {
        EXPECT_NEAR(padded.losses[i], plain.losses[i], onGpu ? 1e-3 : 1e-4) << "step " << i + 1;
        EXPECT_NEAR(padded.norms[i], plain.norms[i], 2e-3 * plain.norms[i]) << "step " << i + 1;
      }
      ASSERT_EQ(padded.weights.size(), plain.weights.size());
      for (size_t i = 0; i < plain.weights.size(); ++i)
        ASSERT_NEAR(padded.weights[i], plain.weights[i], onGpu ? 2.5e-2 : 1e-2) << "weight " << i;
    }
  }
}

TEST_F(CudaStep, anOverflowLeavesEveryBitButTheScale) {
  use("late");
  TrainingRun captured = trainOnMachine(true, {runtime::DType::f16, 4});
  EXPECT_EQ(counters().graphLaunches, static_cast<uint64_t>(steps - 1)) << "nothing is read on the host";
  ASSERT_FALSE(captured.beforeOverflow.empty());
  EXPECT_EQ(captured.beforeOverflow, captured.afterOverflow);
  EXPECT_EQ(captured.scaling, (std::vector<float>{32768, steps - 4, 1}));
  use("early,reverse");
  TrainingRun eager = trainOnMachine(false, {runtime::DType::f16, 4});
  EXPECT_EQ(eager.weights, captured.weights);
  EXPECT_EQ(eager.scaling, captured.scaling);
}

TEST_F(CudaStep, bitsDependOnNoStreamScheduleOrCapture) {
  use("late");
  TrainingRun captured = trainOnMachine(true);
  EXPECT_EQ(counters().captures, 1u);
  EXPECT_EQ(counters().graphLaunches, static_cast<uint64_t>(steps - 1)) << "the first step is eager";
  use("late");
  expectSameBits(trainOnMachine(false), captured, "eager, late");
  use("early");
  expectSameBits(trainOnMachine(true), captured, "captured, early");
  use("early,reverse");
  expectSameBits(trainOnMachine(false), captured, "eager, early, threads in reverse");
  use("random,shuffled,seed=3");
  expectSameBits(trainOnMachine(true), captured, "captured, by chance");
}

// A library that has epilogues only where all is aligned. No matmul of odd rows is multiplied by GELU's slopes, and a
// bias is added by a product of its own, captured or not.
TEST_F(CudaStep, oddRowsNeedNoEpilogueOfTheLibrary) {
  const Variant variant{runtime::DType::bf16, 0, 10, {0, 0}};
  use("late,checked");
  const TrainingRun plain = trainOnMachine(true, variant);
  setenv("TCC_CUBLASLT_HEURISTICS", "aligned", 1);
  use("late,checked");
  expectSameBits(trainOnMachine(true, variant), plain, "no epilogue was used");

  auto logits = [](bool capture) {
    Parameter w("w", {inputs, 13}), b("b", {13});
    for (auto [parameter, seed] : {std::pair{&w, 1u}, {&b, 2u}})
      std::ranges::copy(numbers(static_cast<int64_t>(parameter->data<float>().size()), seed, 1.0f),
                        parameter->data<float>().begin());
    runtime::cuda::StepDeviceOptions device;
    device.capture = capture;
    FunctionOptions options;
    options.device = *runtime::cuda::openStepDevice(device);
    Function forward = compile("logits", [&](Tensor x) { return matmul(x, w) + b; }, options);
    std::vector<float> all;
    for (uint32_t run = 0; run < 3; ++run) {
      Array y = forward(Array::of(numbers(batch * inputs, 10 + run, 1.0f), {batch, inputs}))[0];
      std::span<const float> values = y.read<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  use("late,checked");
  const std::vector<float> captured = logits(true);
  const uint64_t operations = counters().operations;
  use("early");
  EXPECT_EQ(logits(false), captured);
  unsetenv("TCC_CUBLASLT_HEURISTICS");
  use("late,checked");
  const std::vector<float> together = logits(true);
  EXPECT_GT(operations, counters().operations) << "one product did it all";
  ASSERT_EQ(captured.size(), together.size());
  for (size_t i = 0; i < together.size(); ++i)
    EXPECT_NEAR(captured[i], together[i], 1e-5);
}

// Parts of a sum, tiles and blocks follow from shapes alone: another GPU gives the same bits.
TEST_F(CudaStep, bitsDependOnNoDevice) {
  use("late,h200");
  TrainingRun h200 = trainOnMachine(true);
  use("late,a100");
  expectSameBits(trainOnMachine(true), h200, "an A100");
}

} // namespace
} // namespace tcc
