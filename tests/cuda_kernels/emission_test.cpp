// Code for GPUs from the command line: text, PTX, cubins; artefacts for several architectures, and which part runs
// where.
#include "runtime/artefact.h"
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/run_command.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

namespace tcc {
namespace {

namespace fs = std::filesystem;

using Result = CommandResult;

class CudaEmission : public testing::Test {
protected:
  /// tcc in the test's folder, on the machine of stand-ins with these words.
  Result tcc(const std::string &arguments, const std::string &words = "h200") const {
    const std::string command = "cd " + folder / "" +
                                " && env TCC_CUDA_DRIVER=" TCC_MACHINE_CUDA " TCC_NVRTC=" TCC_MACHINE_NVRTC
                                " TCC_CUBLASLT=" TCC_MACHINE_CUBLASLT " TCC_CACHE_DIR=off TCC_CUDA_MACHINE=" +
                                words + " " + TCC_BIN + "/tcc " + arguments;
    return runCommand(command);
  }

  test::TemporaryFolder folder;
  std::string graph = fs::absolute("models/layer_norm.graph").string();
};

TEST_F(CudaEmission, OneArtefactServesSeveralArchitectures) {
  Result made = tcc(graph + " --target=cuda -march=sm_80,sm_90a -o all.tcc");
  ASSERT_EQ(made.status, 0) << made.output;
  auto artefact = runtime::readArtefact(folder / "all.tcc");
  ASSERT_TRUE(artefact) << artefact.error().message();
  std::vector<std::string> names;
  for (const runtime::TargetCode &part : artefact->targets)
    names.push_back(part.target);
  EXPECT_EQ(names, (std::vector<std::string>{"cuda:sm_80", "cuda:sm_90a", "cuda:compute_90"}));
  EXPECT_EQ(artefact->targets[0].plan, artefact->targets[1].plan);
  Result alone = tcc(graph + " --target=cuda -march=compute_90 -o one.tcc");
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_LT(fs::file_size(folder / "all.tcc"), 4 * fs::file_size(folder / "one.tcc")) << "equal plans are there once";

  Result expected = tcc(graph + " --run");
  for (const char *model : {"a100", "h200"})
    for (const char *file : {"all.tcc", "one.tcc"}) {
      Result seen = tcc(std::string(file) + " --run", model);
      const bool runs = std::string(model) == "h200" || std::string(file) == "all.tcc";
      EXPECT_EQ(seen.status, runs ? 0 : 1) << model << " " << file << seen.output;
      if (!runs) {
        EXPECT_HAS(seen.output, "the device needs code for sm_80");
      }
    }
}

TEST_F(CudaEmission, PrintsTextAndPtxOfEachArchitecture) {
  Result text = tcc(graph + " -emit=cuda -march=sm_90a");
  EXPECT_EQ(text.status, 0);
  EXPECT_HAS(text.output, "KERNEL(");
  Result ptx = tcc(graph + " -emit=ptx -march=sm_80,compute_90");
  EXPECT_EQ(ptx.status, 0) << ptx.output;
  EXPECT_HAS(ptx.output, "// sm_80, module 0\n");
  EXPECT_HAS(ptx.output, "// compute_90, module 0\n");
}

TEST_F(CudaEmission, WritesCubinsAsFiles) {
  Result several = tcc(graph + " -emit=cubin -march=sm_80,sm_90a");
  EXPECT_EQ(several.status, 0) << several.output;
  EXPECT_EQ(several.output, "layer_norm.sm_80.0.cubin\nlayer_norm.sm_90a.0.cubin\n");
  EXPECT_GT(fs::file_size(folder / "layer_norm.sm_80.0.cubin"), 100u);
  EXPECT_EQ(tcc(graph + " -emit=cubin -march=sm_90a -o one.cubin").output, "");
  EXPECT_EQ(fs::file_size(folder / "one.cubin"), fs::file_size(folder / "layer_norm.sm_90a.0.cubin"));
  Result refused = tcc(graph + " -emit=cubin -march=sm_80,sm_90a -o one.cubin");
  EXPECT_EQ(refused.status, 1);
  EXPECT_HAS(refused.output, "holds one cubin, and there are 2");
}

TEST_F(CudaEmission, TakesTheGpuThatIsThere) {
  for (const auto &[model, own] : {std::pair("a100", "cuda:sm_80"), std::pair("h200", "cuda:sm_90a")}) {
    Result said = tcc(graph + " --target=cuda -v -fsyntax-only", model);
    EXPECT_EQ(said.status, 0) << said.output;
    said = tcc(graph + " --target=cuda -v -march=native", model);
    EXPECT_HAS(said.output, "the GPU of this machine: ");
    EXPECT_HAS(said.output, "target " + std::string(own));
    EXPECT_EQ(tcc(graph + " --target=cuda --run", model).status, 0);
  }
  Result none = tcc(graph + " --target=cuda -v", "devices=0");
  EXPECT_EQ(none.status, 0) << none.output;
  EXPECT_HAS(none.output, "no GPU to compile for, so sm_90a is taken: ");
  none = tcc(graph + " --target=cuda -march=native", "devices=0");
  EXPECT_EQ(none.status, 1);
  EXPECT_HAS(none.output, "-march=native finds no GPU: ");
}

TEST_F(CudaEmission, RefusesWhatIsNoArchitecture) {
  const std::pair<std::string, std::string> cases[] = {
      {"--target=cuda -march=sm_", "an architecture such as sm_90a is expected"},
      {"--target=cuda -march=sm_80,x86-64-v3", "an architecture such as sm_90a is expected"},
      {"--target=cuda -march=sm_80,sm_80", "names sm_80 twice"},
      {"-march=compute_90", "names a GPU"},
      {"-emit=ptx,asm", "are of the CPU"}};
  for (const auto &[options, message] : cases) {
    Result result = tcc(options + " " + graph);
    EXPECT_EQ(result.status, 2) << options;
    EXPECT_HAS(result.output, message);
  }
  Result virtualCubin = tcc(graph + " -emit=cubin -march=compute_90");
  EXPECT_EQ(virtualCubin.status, 1);
  EXPECT_HAS(virtualCubin.output, "-emit=ptx prints its code");
}

} // namespace
} // namespace tcc
