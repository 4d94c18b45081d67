// The command line on the machine of stand-ins: kernels' text, and a GPT's training step with the CPU's losses.
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/run_command.h"
#include "tests/files.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace tcc {
namespace {

using Result = CommandResult;

const std::string bin = TCC_BIN, machine =
                                     "env TCC_CUDA_DRIVER=" TCC_MACHINE_CUDA " TCC_NVRTC=" TCC_MACHINE_NVRTC
                                     " TCC_CUBLASLT=" TCC_MACHINE_CUBLASLT " TCC_CACHE_DIR=off TCC_CUDA_MACHINE=late ";

/// The numbers after `word` in lines "run N: loss 5.1 norm 0.2".
std::vector<double> numbersAfter(const std::string &output, const std::string &word) {
  std::vector<double> numbers;
  for (size_t at = output.find("run "); at != std::string::npos; at = output.find("\nrun ", at + 1))
    if (size_t place = output.find(word + " ", at); place != std::string::npos)
      numbers.push_back(std::strtod(output.c_str() + place + word.size(), nullptr));
  return numbers;
}

TEST(CudaProgram, printsKernelText) {
  Result result = runCommand(bin + "/tcc models/train_step.graph -emit=cuda");
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("KERNEL("), std::string::npos);
  EXPECT_NE(result.output.find("// fuses gather (models/train_step.graph:"), std::string::npos) << result.output;
}

/// An architecture of -march= is the GPU's, not one of the CPU that computes beside it.
TEST(CudaProgram, checksTheDeviceThatMarchNames) {
  Result result =
      runCommand(machine + bin + "/tcc models/layer_norm.graph --target=cuda -march=sm_90a --run --check-device");
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("no value differs beyond rounding"), std::string::npos) << result.output;
}

TEST(CudaProgram, trainsAGptLikeTheCpu) {
  const test::TemporaryFolder folder;
  std::string data = folder / "text.txt", graph = folder / "baby.graph";
  std::ofstream text(data);
  for (int i = 0; i < 4000; ++i)
    text << "line " << i * 7919 % 1000 << " of a text\n";
  text.close();
  Result made = runCommand(bin + "/train_gpt --model baby --batch 2 --seq 64 --steps 1 --quiet --data " + data +
                           " --emit-graph=" + graph);
  ASSERT_EQ(made.status, 0) << made.output;
  // The CPU stores 16-bit activations only when told to; then both round at the same places.
  struct Case {
    std::string flags;
    size_t runs;
    double tolerance;
  };
  for (const Case &test : {Case{"", 4, 2e-4}, Case{" --dtype=bf16 -fnarrow-activations", 2, 2e-3},
                           Case{" --dtype=f16 -fnarrow-activations", 2, 2e-3}}) {
    const std::string flags = test.flags + " --run=" + std::to_string(test.runs);
    Result cpu = runCommand(bin + "/tcc " + graph + flags),
           gpu = runCommand(machine + bin + "/tcc " + graph + " --target=cuda" + flags);
    ASSERT_EQ(cpu.status, 0) << cpu.output;
    ASSERT_EQ(gpu.status, 0) << gpu.output;
    for (const char *what : {"loss", "norm"}) {
      std::vector<double> expected = numbersAfter(cpu.output, what), seen = numbersAfter(gpu.output, what);
      ASSERT_EQ(expected.size(), test.runs) << cpu.output;
      ASSERT_EQ(seen.size(), test.runs) << gpu.output;
      for (size_t i = 0; i < test.runs; ++i)
        EXPECT_NEAR(seen[i], expected[i], test.tolerance * expected[i]) << what << " of run " << i + 1 << test.flags;
    }
    if (test.flags.find("f16 ") != std::string::npos && test.flags.find("bf16") == std::string::npos) {
      EXPECT_NE(gpu.output.find("loss_scale: f32[] 65536"), std::string::npos) << gpu.output;
    }
  }
}

TEST(CudaProgram, printsWhatTheCpuPrints) {
  const test::TemporaryFolder folder;
  const std::string graph = folder / "prints.graph";
  std::ofstream(graph) << "func.func @f(%x: tensor<2x2xf32> {tcc.name = \"x\"}) -> tensor<2x2xf32> {\n"
                          "  %a = tcc.add %x, %x : tensor<2x2xf32>\n  tcc.print \"a\", %a : tensor<2x2xf32>\n"
                          "  %s = tcc.reduce_max %a axes [0, 1] : tensor<2x2xf32> -> tensor<1x1xf32>\n"
                          "  %seen = tcc.item %s : tensor<1x1xf32>\n  tcc.print \"s\", %seen : tensor<1x1xf32>\n"
                          "  func.return %a : tensor<2x2xf32>\n}\n";
  const auto linesOf = [&](const std::string &command) {
    std::string text = runCommand(command + graph + " --run=2").output, lines;
    for (size_t at = 0; (at = text.find("] = ", at)) != std::string::npos; ++at) {
      const size_t begin = text.rfind('\n', at) + 1;
      lines += text.substr(begin, text.find('\n', at) - begin) + "\n";
    }
    return lines;
  };
  const std::string expected = linesOf(bin + "/tcc ");
  EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 4) << expected;
  EXPECT_EQ(linesOf(machine + bin + "/tcc --target=cuda "), expected);
}

TEST(CudaProgram, checksCudaTextOfCustomOpsOnTheDevice) {
  const test::TemporaryFolder folder;
  const std::string graph = folder / "custom.graph";
  const auto run = [&](const std::string &factor) {
    std::ofstream(graph)
        << "func.func @f(%x: tensor<70xf32> {tcc.name = \"x\"}) -> tensor<70xf32> {\n"
           "  %y = tcc.custom \"twice\" (%a = %x : tensor<70xf32>) -> tensor<70xf32>\n"
           "      attributes {cuda = \"KERNEL(twice, 32, 1)(const float *RESTRICT x, float *RESTRICT y, "
           "i64 n) { i64 i = block_x() * 32 + thread_x(); if (i < n) y[i] = "
        << factor
        << " * x[i]; }\", cuda_kernel = \"twice\", block = array<i64: 32>, elements_per_block = 32 : "
           "i64, cuda_arguments = array<i64: 70>} {\n"
           "    %s = tcc.add %a, %a : tensor<70xf32>\n    tcc.yield %s : tensor<70xf32>\n  }\n"
           "  func.return %y : tensor<70xf32>\n}\n";
    return runCommand(machine + bin + "/tcc --target=cuda --allow-custom-code --run " + graph);
  };
  const Result right = run("2.0f"), wrong = run("3.0f");
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_EQ(wrong.status, 1) << wrong.output;
  EXPECT_NE(wrong.output.find("custom op 'twice' is not what its reference says: result 0 at index [0] is "),
            std::string::npos)
      << wrong.output;
}

TEST(CudaProgram, theDoctorTestsGpusAndSaysWhatIsMissing) {
  const Result well = runCommand(machine + bin + "/tcc --doctor");
  EXPECT_EQ(well.status, 0) << well.output;
  for (const char *part : {"ok       driver", "ok       NVRTC", "ok       cuBLASLt", "cuda:0: Emulated H200, ",
                           "ok       architecture  sm_90a",
                           "ok       self-test     a kernel, a product and a captured graph give the host's values"})
    EXPECT_NE(well.output.find(part), std::string::npos) << part << "\n" << well.output;
  struct Case {
    const char *environment, *expected;
    bool isWell;
  };
  for (const Case &each :
       {Case{"TCC_NVRTC=/nonexistent ", "missing  NVRTC         compiles kernels; NVRTC (", true},
        {"TCC_CUBLASLT=/nonexistent ", "missing  cuBLASLt      matrix products; cuBLASLt (", true},
        {"TCC_CUDA_DRIVER=/nonexistent ", "missing  driver        runs kernels; the CUDA", true},
        {"TCC_CUDA_MACHINE=driver=11080 ", "missing  device        cuda:0; the CUDA driver is for", true},
        {"TCC_CUDA_MACHINE=devices=0 ", "missing  device        there is none", true},
        {"TCC_CUDA_MACHINE_FAIL=cuGraphLaunch:2:719 ", "FAILED   self-test", false},
        {"TCC_CUDA_MACHINE_ALTER='affine|2.0f|3.0f' ", "the GPU computes wrongly: step 1", false}}) {
    const Result seen = runCommand(machine + each.environment + bin + "/tcc --doctor");
    EXPECT_EQ(seen.status == 0, each.isWell) << each.environment << seen.output;
    EXPECT_NE(seen.output.find(each.expected), std::string::npos) << each.environment << seen.output;
  }
}

} // namespace
} // namespace tcc
