// Machine code of GPU kernels on disk: each text is compiled once.
#include "codegen/cuda/modules.h"
#include "codegen/cuda/target.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_machine/machine_test.h"
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tcc::cuda {
namespace {

namespace fs = std::filesystem;
using machine::MachineTest;

class CodeCacheTest : public MachineTest {
protected:
  void SetUp() override {
    MachineTest::SetUp();
    base = (fs::temp_directory_path() / ("tcc_code_cache_" + std::to_string(getpid()))).string();
    fs::remove_all(base);
    cache = FileCache(base);
  }
  void TearDown() override {
    fs::remove_all(base);
    MachineTest::TearDown();
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> list;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder()))
      list.push_back(entry.path());
    return list;
  }
  std::string folder() const { return base + "/kernels"; }
  /// How many modules NVRTC compiled for `kernels`, and their code.
  std::pair<uint64_t, std::vector<std::string>>
  compile(const std::vector<KernelSource> &kernels, const std::string &architecture, CodeKind kind = CodeKind::cubin) {
    std::string notes;
    const uint64_t before = counters().compilations;
    auto codes = compileModules(kernels, {.architecture = architecture}, kind, cache, notes);
    EXPECT_TRUE(codes) << codes.error().message();
    return {counters().compilations - before, codes ? std::move(*codes) : std::vector<std::string>()};
  }

  std::string base;
  FileCache cache;
};

KernelSource kernel(const std::string &symbol) {
  return TextKernel{symbol, "KERNEL(" + symbol + ", 32, 1)(float *out) {\n  out[thread_x()] = 1.0f;\n}\n"};
}

TEST_F(CodeCacheTest, ATextIsCompiledOnce) {
  const std::vector<KernelSource> two = {kernel("first"), kernel("second")};
  auto [made, codes] = compile(two, "sm_90a");
  EXPECT_EQ(made, 2u);
  auto [again, same] = compile(two, "sm_90a");
  EXPECT_EQ(again, 0u);
  EXPECT_EQ(same, codes);
  EXPECT_EQ(compile(two, "sm_80").first, 2u) << "another architecture";
  EXPECT_EQ(compile({kernel("first"), kernel("third")}, "sm_90a").first, 1u) << "one other text";
  EXPECT_EQ(compile(two, "sm_90a", CodeKind::ptx).first, 2u) << "another kind of code";
  for (const fs::path &entry : entries())
    fs::resize_file(entry, 20);
  auto [repaired, whole] = compile(two, "sm_90a");
  EXPECT_EQ(repaired, 2u);
  EXPECT_EQ(whole, codes);
  cache = {};
  EXPECT_EQ(compile(two, "sm_90a").first, 2u);
}

TEST_F(CodeCacheTest, ATargetsKeyNamesArchitectureAndCompiler) {
  const auto key = [](const char *architecture) { return CudaTarget({architecture}).codeKey(); };
  const auto known = key("sm_90a");
  ASSERT_TRUE(known) << known.error().message();
  EXPECT_EQ(*key("sm_90a"), *known);
  EXPECT_NE(*key("sm_80"), *known);
  EXPECT_NE(*CudaTarget({.architecture = "sm_90a", .steady = true}).codeKey(), *known);
  EXPECT_NE(known->find(runtime::cuda::Nvrtc::open().identity()), std::string::npos) << *known;
}

TEST_F(CodeCacheTest, AFullOrForbiddenFolderIsNoError) {
  std::ofstream(base) << "a file where the folder should be";
  EXPECT_EQ(compile({kernel("first")}, "sm_90a").first, 1u);
  std::string notes;
  ASSERT_TRUE(compileModules(std::vector<KernelSource>{kernel("first")}, {.architecture = "sm_90a"}, CodeKind::cubin,
                             cache, notes));
  EXPECT_NE(notes.find("which takes no more"), std::string::npos) << notes;
}

} // namespace
} // namespace tcc::cuda
