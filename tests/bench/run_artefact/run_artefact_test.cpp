// The program on the machine of stand-ins: from an artefact's bytes to losses, times and a profile.
#include "runtime/files.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_runtime/step_plan.h"

#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace tcc::runtime {
namespace {

std::string floatBytes(float value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

class RunArtefact : public machine::MachineTest {
protected:
  void SetUp() override {
    MachineTest::SetUp();
    setenv("TCC_CUBLASLT", CUBLASLT_STAND_IN, 1);
    folder = testing::TempDir() + "run_artefact." + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    ASSERT_FALSE(writeArtefact(test::gpuArtefact(test::gpuStepPlan()), folder + "/step.tcc"));
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    MachineTest::TearDown();
  }
  std::string run(const std::string &arguments) {
    const std::string command = std::string(RUN_ARTEFACT) + " " + folder + "/step.tcc " + arguments + " 2>&1";
    std::FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char part[4096];
    while (size_t bytes = std::fread(part, 1, sizeof part, pipe))
      text.append(part, bytes);
    status = pclose(pipe);
    return text;
  }
  /// The lines of the steps: what must not depend on how they are launched.
  static std::string losses(const std::string &text) {
    const size_t begin = text.find("step 0"), end = text.find(" ms a step");
    return text.substr(begin, text.rfind('\n', end) - begin);
  }

  std::string folder;
  int status = 0;
};

TEST_F(RunArtefact, StepsTimesMemoryAndProfile) {
  const std::string common = "--steps=6 --input rate=0.01 --seed=3 --tuning=" + folder + "/tuning.json ";
  const std::string captured = run(common + "--profile=" + folder + "/trace.json");
  ASSERT_EQ(status, 0) << captured;
  for (const char *part : {"`step` for cuda:sm_90a, 8 instructions", "step 5  loss ", "ms a step (median of 3)",
                           "bytes planned", "bias relu", "x^T y"})
    EXPECT_NE(captured.find(part), std::string::npos) << part << "\n" << captured;
  EXPECT_TRUE(std::filesystem::exists(folder + "/trace.json"));
  EXPECT_EQ(losses(run(common + "--eager")), losses(captured));
  // The same state and inputs from files.
  std::string bytes;
  for (int i = 0; i < 24 * 40; ++i)
    bytes += floatBytes(0.001f * static_cast<float>(i % 17));
  ASSERT_FALSE(writeFileAtomically(folder + "/w.bytes", bytes));
  const std::string fromFile = run(common + "--state w=" + folder + "/w.bytes");
  EXPECT_EQ(status, 0) << fromFile;
  EXPECT_NE(losses(fromFile), losses(captured));
}

TEST_F(RunArtefact, MistakesAreNamed) {
  for (const auto &[arguments, expected] : {std::pair{"--input lr=1", "the artefact has no input `lr`"},
                                            {"--state w=/nonexistent", "/nonexistent"},
                                            {"--steps=0", "--steps is `0`; an integer from 1 is needed"},
                                            {"--fast", "unknown option --fast"},
                                            {"--device=7", "CUDA device 7 asked for"}}) {
    const std::string text = run(arguments);
    EXPECT_NE(status, 0);
    EXPECT_NE(text.find("run_artefact: error: "), std::string::npos) << text;
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

// What an archive must bring along: the C and C++ libraries are the machine's.
TEST_F(RunArtefact, NeedsNoLibraryOfTheCompiler) {
  std::FILE *pipe = popen(("readelf -d " + std::string(RUN_ARTEFACT)).c_str(), "r");
  std::string text;
  char part[4096];
  while (size_t bytes = std::fread(part, 1, sizeof part, pipe))
    text.append(part, bytes);
  if (pclose(pipe) != 0)
    GTEST_SKIP() << "no readelf";
  EXPECT_NE(text.find("libc.so"), std::string::npos) << text;
  for (const char *library : {"dnnl", "LLVM", "MLIR", "libcuda", "cublas", "nvrtc"})
    EXPECT_EQ(text.find(library), std::string::npos) << text;
}

} // namespace
} // namespace tcc::runtime
