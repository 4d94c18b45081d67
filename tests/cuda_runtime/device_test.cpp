// Owners, launches and error texts, on the stand-in driver.
#include "runtime/device/cuda/device.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

/// As in fake_driver.cpp.
struct FakeState {
  int live, devices, capability, dynamicShared;
  unsigned launch[7];
  unsigned attributeCount;
  unsigned cluster[3];
  int argument;
  int staticShared;
  unsigned long long variable;
  char failing[64];
  int failure;
  int graphLaunches;
};

class CudaDevice : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TCC_CUDA_DRIVER", FAKE_DRIVER, 1);
    fakeLibrary = Library::open({"the stand-in driver", "", {FAKE_DRIVER}, {}, "build it"});
    fake = reinterpret_cast<FakeState *(*)()>(fakeLibrary.get("fakeState"))();
    *fake = {};
    fake->devices = 1;
    fake->capability = 90;
  }
  void TearDown() override {
    EXPECT_EQ(fake->live, 0) << "a handle was not released";
    unsetenv("TCC_CUDA_DRIVER");
  }
  void failNext(const char *function, int code) {
    std::strcpy(fake->failing, function);
    fake->failure = code;
  }
  template <typename Action>
  std::string errorOf(Action &&action) {
    try {
      action();
    } catch (const CudaError &error) {
      return error.what();
    }
    return "no error";
  }

  Library fakeLibrary;
  FakeState *fake = nullptr;
};

TEST_F(CudaDevice, OpensAndNames) {
  auto device = Device::open();
  EXPECT_EQ(device->name(), "Fake H200");
  EXPECT_EQ(device->computeCapability(), 90);
  EXPECT_EQ(device->architecture(), "sm_90a");
  EXPECT_EQ(device->totalMemory(), 1u << 30);
}

TEST_F(CudaDevice, ArchitectureFollowsCapability) {
  for (auto [capability, name] : {std::pair(80, "sm_80"), {89, "sm_80"}, {100, "sm_100a"}, {120, "sm_120"}}) {
    fake->capability = capability;
    EXPECT_EQ(Device::open()->architecture(), name);
  }
  fake->capability = 75;
  EXPECT_EQ(errorOf([] { Device::open(); }), "Fake H200 has compute capability 7.5: 8.0 or later is needed");
}

TEST_F(CudaDevice, MissingDeviceSaysWhatToCheck) {
  EXPECT_EQ(errorOf([] { Device::open(3); }),
            "CUDA device 3 asked for, but the driver shows 1: check `nvidia-smi` and CUDA_VISIBLE_DEVICES");
}

TEST_F(CudaDevice, BuffersCopyAndRelease) {
  auto device = Device::open();
  Stream stream = device->makeStream();
  Buffer first = device->allocate(16);
  Buffer second = device->allocate(16);
  PinnedBuffer host = device->allocatePinned(16);
  for (int i = 0; i < 4; ++i)
    host.as<int>()[i] = 10 + i;
  stream.setBytes(first.address(), 0, 16);
  stream.copyToDevice(first.address(), host.data(), 16);
  stream.copyOnDevice(second.address(), first.address(), 16);
  int back[4] = {};
  stream.copyToHost(back, second.address(), 16);
  stream.synchronize();
  EXPECT_EQ(back[3], 13);
  Buffer moved = std::move(first);
  EXPECT_EQ(first.address(), 0u);
  EXPECT_EQ(moved.size(), 16u);
  EXPECT_EQ(device->allocate(0).address(), 0u);
}

TEST_F(CudaDevice, EventsTime) {
  auto device = Device::open();
  Stream stream = device->makeStream();
  Event start = device->makeEvent();
  Event stop = device->makeEvent();
  stream.record(start);
  stream.record(stop);
  stream.waitFor(stop);
  stop.synchronize();
  EXPECT_EQ(stop.millisecondsSince(start), 1.5f);
}

TEST_F(CudaDevice, CapturedWorkIsLaunchedAgain) {
  auto device = Device::open();
  Stream stream = device->makeStream();
  stream.beginCapture();
  Graph graph = stream.endCapture();
  ASSERT_TRUE(graph);
  EXPECT_FALSE(Graph());
  stream.launch(graph);
  stream.launch(graph);
  EXPECT_EQ(fake->graphLaunches, 2);
  for (const char *function : {"cuStreamEndCapture", "cuGraphInstantiateWithFlags"}) { // and nothing leaks
    failNext(function, 901);
    EXPECT_NE(errorOf([&] { stream.endCapture(); }).find("step"), std::string::npos);
  }
}

TEST_F(CudaDevice, ErrorsKeepTheDriversCode) {
  auto device = Device::open();
  failNext("cuMemAlloc_v2", 2);
  try {
    device->allocate(16);
    ADD_FAILURE() << "no error";
  } catch (const CudaError &error) {
    EXPECT_EQ(error.code(), 2);
  }
  EXPECT_EQ(CudaError("not the driver's").code(), 0);
  EXPECT_EQ(device->freeMemory(), 1u << 29);
}

TEST_F(CudaDevice, LaunchPassesShapeAttributesAndArguments) {
  auto device = Device::open();
  Stream stream = device->makeStream();
  Module module = device->load(std::string("cubin"));
  Kernel small = module.kernel("k", 48 * 1024);
  EXPECT_EQ(fake->dynamicShared, 0);
  fake->staticShared = 8;
  module.kernel("k", 48 * 1024);
  EXPECT_EQ(fake->dynamicShared, 48 * 1024) << "static arrays count too";
  Kernel kernel = module.kernel("k", 100 * 1024);
  EXPECT_EQ(fake->dynamicShared, 100 * 1024);
  EXPECT_EQ(kernel.registers(), 168);
  EXPECT_EQ(kernel.localBytes(), 0);
  int argument = 42;
  void *arguments[] = {&argument};
  small.launch(stream, {.grid = {0, 1, 1}}, arguments);
  EXPECT_EQ(fake->argument, 0) << "an empty grid launches nothing";
  small.launch(stream, {.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments);
  EXPECT_EQ(fake->attributeCount, 0u);
  kernel.launch(
      stream,
      {.grid = {7, 2, 3}, .block = {128, 1, 1}, .sharedBytes = 99, .cluster = {2, 1, 1}, .overlapsPredecessor = true},
      arguments);
  unsigned expected[7] = {7, 2, 3, 128, 1, 1, 99};
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(fake->launch[i], expected[i]) << i;
  EXPECT_EQ(fake->attributeCount, 2u);
  EXPECT_EQ(fake->cluster[0], 2u);
  EXPECT_EQ(fake->argument, 42);
}

TEST_F(CudaDevice, KernelsSeePinnedMemoryThroughAVariable) {
  auto device = Device::open();
  Stream stream = device->makeStream();
  Module module = device->load(std::string("cubin"));
  PinnedBuffer host = device->allocatePinned(32);
  DevicePointer pointer = host.deviceAddress();
  EXPECT_NE(pointer, 0u);
  stream.copyToDevice(module.global("where", sizeof pointer), &pointer, sizeof pointer);
  EXPECT_EQ(fake->variable, pointer);
  EXPECT_EQ(errorOf([&] { module.global("where", 4); }), "variable where has 8 bytes: 4 bytes are expected");
  EXPECT_EQ(device->allocatePinned(0).deviceAddress(), 0u);
  failNext("cuMemHostGetDevicePointer_v2", 2);
  EXPECT_EQ(errorOf([&] { device->allocatePinned(32); }),
            "mapping 32 bytes of pinned host memory: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

TEST_F(CudaDevice, FailuresSayWhatWasBeingDone) {
  auto device = Device::open();
  failNext("cuMemAlloc_v2", 2);
  EXPECT_EQ(errorOf([&] { device->allocate(123); }),
            "allocating 123 bytes on Fake H200: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  failNext("cuModuleLoadDataEx", 209);
  EXPECT_EQ(errorOf([&] { device->load(std::string("cubin")); }),
            "loading a module on Fake H200: no kernel image for this device: CUDA error 209 (no description)");
  Stream stream = device->makeStream();
  Module module = device->load(std::string("cubin"));
  failNext("cuModuleGetFunction", 500);
  EXPECT_NE(errorOf([&] { module.kernel("lost"); }).find("looking up kernel lost: "), std::string::npos);
  failNext("cuLaunchKernelEx", 1);
  int argument = 0;
  void *arguments[] = {&argument};
  EXPECT_EQ(
      errorOf([&] { module.kernel("flash").launch(stream, {.grid = {4, 1, 1}, .block = {64, 1, 1}}, arguments); }),
      "launching flash (grid 4x1x1, block 64x1x1, cluster 1x1x1, 0 bytes of shared memory): CUDA error 1 (no "
      "description)");
  failNext("cuStreamSynchronize", 700);
  EXPECT_NE(errorOf([&] { stream.synchronize(); }).find("waiting for a stream"), std::string::npos);
}

} // namespace
