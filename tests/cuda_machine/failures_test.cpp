// Each call of the driver and of NVRTC fails once: one clear text, nothing lost, the process usable.
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_machine/samples.h"

#include <map>

namespace tcc::machine {
namespace {

class MachineFailures : public MachineTest {};

/// Something of everything that the runtime does.
void everything() {
  Loaded loaded;
  cuda::Event start = loaded.device->makeEvent(), stop = loaded.device->makeEvent();
  cuda::Stream other = loaded.device->makeStream();
  cuda::Buffer data = loaded.device->allocate(512), out = loaded.device->allocate(512);
  cuda::PinnedBuffer pinned = loaded.device->allocatePinned(512);
  loaded.device->totalMemory();
  loaded.module.kernel("reversed", 64 * 1024).registers();
  for (float &element : pinned.as<float>())
    element = 3.0f;
  loaded.stream.record(start);
  loaded.stream.beginCapture();
  try {
    loaded.stream.setBytes(out.address(), 0, 512);
    loaded.stream.copyToDevice(data.address(), pinned.data(), 512);
    loaded.launch(loaded.stream, "reversed", 1, data.address(), out.address());
  } catch (...) { // nothing can be freed while a stream is capturing
    errorOf([&] { loaded.stream.endCapture(); });
    throw;
  }
  cuda::Graph graph = loaded.stream.endCapture();
  loaded.stream.launch(graph);
  loaded.stream.record(stop);
  other.waitFor(stop);
  other.copyOnDevice(data.address(), out.address(), 512);
  other.copyToHost(pinned.data(), data.address(), 512);
  other.synchronize();
  stop.synchronize();
  stop.millisecondsSince(start);
  EXPECT_EQ(pinned.as<float>()[5], 3.0f);
}

TEST_F(MachineFailures, EachCallFailsOnce) {
  everything();
  ASSERT_FALSE(testing::Test::HasFailure());
  std::map<std::string, std::uint64_t> calls;
  for (std::size_t i = 0; const char *symbol = tccMachineSymbol(i); ++i)
    if (tccMachineCalls(symbol))
      calls[symbol] = tccMachineCalls(symbol);
  EXPECT_GE(calls.size(), 40u);
  for (const auto &[symbol, count] : calls)
    for (std::uint64_t call = 1; call <= count; ++call) {
      std::string plan = symbol + ":" + std::to_string(call);
      ASSERT_TRUE(tccMachineFail(plan.c_str()));
      std::string error = errorOf(everything);
      // A destructor has nobody to tell.
      bool release =
          names(symbol, "Destroy") || names(symbol, "Free") || names(symbol, "Unload") || names(symbol, "Release");
      if (release)
        EXPECT_EQ(error, "no error") << plan;
      else {
        EXPECT_NE(error, "no error") << plan;
        EXPECT_LT(std::count(error.begin(), error.end(), '\n'), 2) << plan << ": " << error;
        bool driver = names(symbol, "cu");
        EXPECT_TRUE(names(error, ": CUDA_ERROR_") || !driver || symbol.rfind("nvrtc", 0) == 0) << plan << ": " << error;
      }
      EXPECT_EQ(counters().liveBuffers + counters().livePinned + counters().liveHandles + counters().livePrograms, 0u)
          << plan << " leaves something behind: " << error;
      EXPECT_EQ(counters().leaks, 0u) << plan << ": " << report();
      ASSERT_TRUE(tccMachineFail(""));
    }
  EXPECT_EQ(errorOf(everything), "no error") << "all works as before";
}

TEST_F(MachineFailures, ALostDeviceStaysLostUntilItIsOpenedAgain) {
  {
    Loaded loaded;
    ASSERT_TRUE(tccMachineFail("cuStreamSynchronize:1:700"));
    EXPECT_TRUE(names(errorOf([&] { loaded.stream.synchronize(); }), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    EXPECT_TRUE(names(errorOf([&] { loaded.device->allocate(64); }), "CUDA_ERROR_ILLEGAL_ADDRESS"));
  }
  EXPECT_EQ(errorOf(everything), "no error");
}

TEST_F(MachineFailures, PlansAreReadOrRefused) {
  EXPECT_FALSE(tccMachineFail("cuInit"));
  EXPECT_FALSE(tccMachineFail("cuInit:x"));
  EXPECT_FALSE(tccMachineFail("cuInit:1:2:3"));
  EXPECT_TRUE(tccMachineFail("cuInit:1:2,cuMemAlloc_v2:3"));
  EXPECT_TRUE(names(errorOf([] { cuda::Device::open(); }), "CUDA_ERROR_OUT_OF_MEMORY"));
}

} // namespace
} // namespace tcc::machine
