// What a step on a GPU refuses, and what is left after a failure: code for another chip, what is missing, too little
// memory, a lost device, each call of the driver failing once.
#include "step_training.h"

namespace tcc::runtime {
namespace {

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
