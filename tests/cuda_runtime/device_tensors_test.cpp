// Steps over tensors of the device, in the order of another library's stream, on the machine of stand-ins: values,
// order, what is captured, what is waited for, memory, what is refused.
#include "runtime/device/cuda/device.h"
#include "step_training.h"

namespace tcc::runtime {
namespace {

/// Another library of the process, with tensors of its own on the device: what a training loop of it does.
struct Owner {
  explicit Owner(bool hasStream = true)
      : device(cuda::Device::open()), stream(hasStream ? device->makeStream() : device->streamOf(nullptr)),
        w{device->allocate(inner * columns * 4)}, b{device->allocate(columns * 4)},
        given(device->allocatePinned(rows * inner * 4 + 4)), seen(device->allocatePinned(4)) {
    moveTensors();
    fill(w, numbers(inner * columns, 5));
    fill(b, numbers(columns, 6));
  }
  ~Owner() { stream.synchronize(); }

  void fill(const cuda::Buffer &to, const std::vector<float> &values) {
    stream.copyToDevice(to.address(), values.data(), values.size() * 4);
  }
  /// New memory for all but the states; the old memory is released.
  void moveTensors() {
    stream.synchronize();
    x = device->allocate(rows * inner * 4);
    rate = device->allocate(4);
    loss = device->allocate(4);
    y = device->allocate(rows * columns * 4);
  }

  /// A step whose inputs come by copies of the stream, and are overwritten by it once the step has begun.
  Error start(Executable &executable, int step) {
    const auto values = numbers(rows * inner, 100 + static_cast<uint32_t>(step));
    const auto floats = given.as<float>();
    std::copy(values.begin(), values.end(), floats.begin());
    floats.back() = 0.01f / static_cast<float>(1 + step);
    stream.copyToDevice(x.address(), given.data(), x.size());
    stream.copyToDevice(rate.address(), &floats.back(), 4);
    const Error error = executable.startOn(stream.handle(), std::array{input(x), input(rate)},
                                           std::array{output(loss), output(y)}, std::array{output(w), output(b)});
    stream.copyToHost(seen.data(), loss.address(), 4);
    for (const cuda::Buffer *spent : {&x, &rate, &loss, &y})
      stream.setBytes(spent->address(), 0xFF, spent->size());
    return error;
  }
  float lossOf(Executable &executable, int step) {
    const Error error = start(executable, step);
    EXPECT_FALSE(error) << error.message();
    stream.synchronize();
    return seen.as<float>()[0];
  }
  std::vector<float> read(const cuda::Buffer &from) {
    std::vector<float> values(from.size() / 4);
    stream.copyToHost(values.data(), from.address(), from.size());
    stream.synchronize();
    return values;
  }
  static char *place(const cuda::Buffer &buffer) { return reinterpret_cast<char *>(buffer.address()); }
  static ConstTensorRef input(const cuda::Buffer &b) { return {place(b), static_cast<int64_t>(b.size())}; }
  static TensorRef output(const cuda::Buffer &b) { return {place(b), static_cast<int64_t>(b.size())}; }

  std::unique_ptr<cuda::Device> device;
  cuda::Stream stream;
  cuda::Buffer w, b, x, rate, loss, y;
  cuda::PinnedBuffer given, seen;
};

class CudaDeviceTensors : public CudaStep {
protected:
  std::unique_ptr<Executable> load(const std::shared_ptr<Device> &device) {
    auto loaded = Executable::load(gpuArtefact(gpuStepPlan()), {.device = device, .deviceTensors = true});
    EXPECT_TRUE(loaded) << loaded.error().message();
    return loaded ? std::move(*loaded) : nullptr;
  }
};

TEST_F(CudaDeviceTensors, StepsInTheOrderOfAnotherStreamHaveTheBitsOfStepsOverHostTensors) {
  std::vector<float> expected, w, b;
  {
    Training run(open());
    for (int step = 0; step < 6; ++step)
      expected.push_back(run.lossOf(step));
    w = run.read(run.w), b = run.read(run.b);
  }
  for (const char *settings : {"late", "early", "random,shuffled", "random,seed=2"})
    for (const bool hasStream : {true, false}) {
      SCOPED_TRACE(std::string(settings) + (hasStream ? "" : ", default stream"));
      use(settings);
      const auto executable = load(open());
      Owner owner(hasStream);
      for (int step = 0; step < 6; ++step) {
        if (step == 3)
          owner.moveTensors();
        EXPECT_EQ(owner.lossOf(*executable, step), expected[static_cast<size_t>(step)]) << step;
      }
      EXPECT_EQ(owner.read(owner.w), w);
      EXPECT_EQ(owner.read(owner.b), b);
      EXPECT_EQ(report(), "");
    }
}

TEST_F(CudaDeviceTensors, AStepIsCapturedWhereItsTensorsStayAndNothingWaits) {
  const auto executable = load(open());
  Owner owner;
  for (int step = 0; step < 2; ++step)
    owner.lossOf(*executable, step);
  EXPECT_EQ(counters().captures, 1u);
  for (int step = 2; step < 5; ++step) {
    const auto before = counters();
    ASSERT_FALSE(owner.start(*executable, step));
    EXPECT_EQ(counters().graphLaunches, before.graphLaunches + 1);
    EXPECT_EQ(counters().synchronizations, before.synchronizations);
    EXPECT_EQ(counters().allocations, before.allocations);
    EXPECT_EQ(counters().pinned, before.pinned);
    owner.stream.synchronize(); // the pinned inputs are written anew
  }
  for (int step = 5; step < 8; ++step) { // tensors that move each time are not worth a capture
    const cuda::Buffer old = std::move(owner.x);
    owner.moveTensors();
    owner.lossOf(*executable, step);
  }
  EXPECT_EQ(counters().captures, 1u);
}

TEST_F(CudaDeviceTensors, NoMemoryIsKeptForTensors) {
  const auto device = open();
  const auto before = counters().pinned;
  const auto executable = load(device);
  EXPECT_EQ(counters().pinned, before);
  const Plan plan = gpuStepPlan();
  int64_t tensors = 0;
  for (const auto *specs : {&plan.inputs, &plan.outputs, &plan.states})
    for (const TensorSpec &spec : *specs)
      tensors += spec.bytes();
  EXPECT_EQ(device->allocatedBytes(), plan.plannedBytes() - tensors);
}

TEST_F(CudaDeviceTensors, WhatIsRefused) {
  const auto executable = load(open());
  Owner owner;
  const ConstTensorRef inputs[] = {Owner::input(owner.x), Owner::input(owner.rate)};
  const TensorRef outputs[] = {Owner::output(owner.loss), Owner::output(owner.y)},
                  states[] = {Owner::output(owner.w), Owner::output(owner.b)};
  EXPECT_NE(executable->start(inputs, states).error().message().find("it was loaded for those of cuda:0"),
            std::string::npos);
  EXPECT_NE(executable->run(inputs, outputs, states).message().find("it was loaded for those of cuda:0"),
            std::string::npos);
  const ConstTensorRef odd[] = {{Owner::place(owner.w) + 128, inputs[0].bytes}, inputs[1]};
  EXPECT_EQ(executable->startOn(nullptr, odd, outputs, states).message(),
            "input `x` is not aligned; tensors start at multiples of 256 bytes");
  const TensorRef both[] = {states[0], {Owner::place(owner.w), states[1].bytes}};
  EXPECT_NE(executable->startOn(nullptr, inputs, outputs, both).message().find("overlap"), std::string::npos);
  Training hosted(open());
  EXPECT_NE(hosted.executable->startOn(nullptr, inputs, outputs, states).message().find("was not loaded for them"),
            std::string::npos);
  EXPECT_EQ(makeCpuDevice()->waitFor(nullptr).message(), "cpu has no streams");
}

} // namespace
} // namespace tcc::runtime
