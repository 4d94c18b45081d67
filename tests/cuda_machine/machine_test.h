// The runtime on the stand-ins, for tests: the environment that makes the runtime open them, and what they counted.
#pragma once

#include "tests/cuda_machine/machine_state.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace tcc::machine {

/// A test whose runtime opens the stand-ins. Nothing may be live at its end, and nothing released twice.
class MachineTest : public testing::Test {
protected:
  void SetUp() override {
    setenv("TCC_CUDA_DRIVER", TCC_MACHINE_CUDA, 1);
    setenv("TCC_NVRTC", TCC_MACHINE_NVRTC, 1);
    setenv("TCC_CUBLASLT", TCC_MACHINE_CUBLASLT, 1);
    setenv("TCC_CACHE_DIR", "off", 1);
    use("");
  }
  void TearDown() override {
    const TccMachineCounters &count = *tccMachineCounters();
    EXPECT_EQ(count.liveBuffers, 0u);
    EXPECT_EQ(count.livePinned, 0u);
    EXPECT_EQ(count.liveHandles, 0u);
    EXPECT_EQ(count.livePrograms, 0u);
    EXPECT_EQ(count.leaks, expectedLeaks) << tccMachineReport();
    EXPECT_EQ(count.invalidReleases, expectedInvalidReleases);
  }
  /// Settings (settings.h) for the devices opened from now on; counts, findings and planned failures start anew.
  void use(const std::string &settings) {
    setenv("TCC_CUDA_MACHINE", settings.c_str(), 1);
    ASSERT_TRUE(tccMachineFail(""));
    tccMachineForget();
  }
  static const TccMachineCounters &counters() { return *tccMachineCounters(); }
  static std::string report() { return tccMachineReport(); }

  std::uint64_t expectedLeaks = 0, expectedInvalidReleases = 0;
};

} // namespace tcc::machine
