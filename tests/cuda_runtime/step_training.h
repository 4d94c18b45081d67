// A training run of gpuStepPlan() on the machine of stand-ins, and the fixture of its tests.
#pragma once
#include "runtime/device/cuda/step_device.h"
#include "runtime/executable.h"
#include "runtime/profiler.h"
#include "step_plan.h"
#include "tests/cuda_machine/machine_test.h"

#include <cmath>

namespace tcc::runtime {

using test::columns;
using test::gpuArtefact;
using test::gpuStepPlan;
using test::inner;
using test::rows;

inline std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

inline TensorStorage storageOf(const std::vector<float> &values) {
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

} // namespace tcc::runtime
