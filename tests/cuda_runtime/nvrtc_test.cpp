// Compiles CUDA texts with the real NVRTC. Where none is installed each test is skipped, and says why.
#include "runtime/device/cuda/nvrtc.h"

#include <gtest/gtest.h>
#include <optional>

using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

class NvrtcTest : public ::testing::Test {
protected:
  void SetUp() override {
    try {
      nvrtc.emplace(Nvrtc::open());
    } catch (const CudaError &error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::optional<Nvrtc> nvrtc;
};

const char *sound = "extern \"C\" __global__ void sound(float *x) { __shared__ float s[64]; s[threadIdx.x] = "
                    "x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x]; }";

// Indexing a private array by a run-time value forces it into local memory.
const char *local = "extern \"C\" __global__ void local(int *x) { int a[64]; for (int i = 0; i < 64; ++i) a[i] = x[i]; "
                    "for (int i = 0; i < 64; ++i) a[x[i] & 63] += i; x[threadIdx.x] = a[x[threadIdx.x] & 63]; }";

TEST_F(NvrtcTest, AllArchitecturesInParallelWithFigures) {
  std::vector<CompileRequest> requests;
  for (const char *architecture : {"sm_80", "sm_90a", "sm_100a"})
    if (nvrtc->supports(architecture))
      requests.push_back({"sound.cu", sound, architecture, {}});
  for (const CompileResult &result : nvrtc->compileAll(requests)) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(std::string(result.cubin.data(), 4), "\177ELF");
    const KernelFigures *kernel = result.report.find("sound");
    ASSERT_NE(kernel, nullptr) << result.log;
    EXPECT_GT(kernel->registers, 3);
    EXPECT_GE(kernel->sharedBytes, 256);
    EXPECT_EQ(kernel->barriers, 1);
    EXPECT_GT(result.seconds, 0);
  }
}

TEST_F(NvrtcTest, LocalMemoryIsRefused) {
  CompileRequest request{"local.cu", local, "sm_90a", {}};
  try {
    nvrtc->compile(request);
    ADD_FAILURE() << "a stack frame was accepted";
  } catch (const CudaError &error) {
    std::string text = error.what();
    EXPECT_NE(text.find("compiling local.cu for sm_90a: refused"), std::string::npos) << text;
    EXPECT_NE(text.find("bytes of stack frame; none is allowed"), std::string::npos) << text;
  }
  request.refuseFindings = false;
  EXPECT_FALSE(nvrtc->compile(request).cubin.empty());
}

TEST_F(NvrtcTest, ErrorsHoldTheLogWithTheLine) {
  std::vector<CompileRequest> requests = {{"bad.cu", "\n__global__ void k() { undeclared; }", "sm_80", {}},
                                          {"sound.cu", sound, "sm_80", {}}};
  std::vector<CompileResult> results = nvrtc->compileAll(requests, 2);
  EXPECT_NE(results[0].error.find("bad.cu(2): error"), std::string::npos) << results[0].error;
  EXPECT_TRUE(results[0].cubin.empty());
  EXPECT_EQ(results[1].error, "");
}

} // namespace
