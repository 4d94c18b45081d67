// The assembler's log, as NVRTC 12.8 to 13.x print it.
#include "runtime/device/cuda/ptxas_log.h"

#include <gtest/gtest.h>

using namespace tcc::runtime::cuda;

namespace {

TEST(PtxasLog, FiguresOfEachKernel) {
  PtxasReport report = parsePtxasLog("ptxas info    : 17 bytes gmem\n"
                                     "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
                                     "ptxas info    : Function properties for first\n"
                                     "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                                     "ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem\n"
                                     "ptxas info    : Compile time = 12.3 ms\n"
                                     "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
                                     "ptxas info    : Function properties for second\n"
                                     "    48 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
                                     "ptxas info    : Used 255 registers, used 0 barriers, 48 bytes cumulative stack "
                                     "size, 8 bytes lmem, 400 bytes cmem[0]\n");
  ASSERT_EQ(report.kernels.size(), 2u);
  const KernelFigures *first = report.find("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->registers, 168);
  EXPECT_EQ(first->barriers, 2);
  EXPECT_EQ(first->sharedBytes, 1024);
  EXPECT_EQ(first->stackFrame + first->spillStores + first->spillLoads + first->localBytes, 0);
  EXPECT_EQ(report.find("third"), nullptr);
  EXPECT_EQ(ptxasFindings(report), "second: 12 bytes of spill stores; none is allowed\n"
                                   "second: 16 bytes of spill loads; none is allowed\n"
                                   "second: 48 bytes of stack frame; none is allowed\n"
                                   "second: 8 bytes of local memory; none is allowed\n");
}

TEST(PtxasLog, LostPerformanceIsFound) {
  for (int message = 7505; message <= 7522; ++message) {
    std::string line = "ptxas info    : (C" + std::to_string(message) + ") Potential Performance Loss: some reason";
    bool refused = message == 7508 || (message >= 7510 && message <= 7520 && message != 7519);
    EXPECT_EQ(parsePtxasLog(line).lostPerformance.size(), refused ? 1u : 0u) << message;
    EXPECT_EQ(ptxasFindings(parsePtxasLog(line)), refused ? line + "\n" : "");
  }
  EXPECT_EQ(parsePtxasLog("(C7599) wgmma.mma_async instructions are serialized due to anything").lostPerformance.size(),
            1u);
}

TEST(PtxasLog, CalledFunctionsCountToTheirKernel) {
  PtxasReport report = parsePtxasLog("Compiling entry function 'k' for 'sm_80'\nFunction properties for k\n"
                                     "    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                                     "Function properties for helper\n"
                                     "    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n");
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_EQ(report.kernels[0].stackFrame, 24);
  EXPECT_EQ(report.kernels[0].spillStores, 4);
}

} // namespace
