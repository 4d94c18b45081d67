// Each pass and path once under AddressSanitizer: no access beyond an array of a thread, a tile or a buffer.
#include "emulated_case.h"

#include <gtest/gtest.h>
#include <string_view>

using namespace tcc;
using namespace tcc::attention_test;
using namespace tcc::cuda;

namespace {

TEST(AttentionAsan, EveryPassIsClean) {
  for (const char *architecture : {"sm_80", "sm_90a"})
    for (int headDim : {64, 128}) {
      Problem problem;
      problem.headDim = headDim;
      problem.queries = 65;
      problem.keys = 137;
      problem.diagonal = 72;
      problem.heads = problem.group = 2;
      problem.causal = true;
      problem.dropout = 0.25;
      problem.scale = 0.1;
      problem.bias = std::string_view(architecture) == "sm_80" ? Bias::Each : Bias::None;
      Memory memory(problem, true, randomInputs(problem, 5));
      for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys}) {
        AttentionKernel kernel = kernelOf(problem, pass, architecture);
        emulator::LaunchResult result = launchOnce(memory, kernel, {});
        EXPECT_TRUE(result.ok()) << kernel.name << " for " << architecture << "\n" << result.text();
      }
    }
}

} // namespace
