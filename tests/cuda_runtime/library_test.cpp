// What a user sees when a library is missing, and where it is looked for.
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/nvrtc.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

struct Missing {
  const char *variable;
  void (*open)();
  const char *install;
};

void openDriver() {
  Driver::open();
}
void openNvrtc() {
  Nvrtc::open();
}
void openCublasLt() {
  CublasLt::open();
}

TEST(CudaLibrary, MissingOnesSayHowToGetThem) {
  for (auto [variable, open, install] : {Missing{"TCC_CUDA_DRIVER", openDriver, "apt-get install nvidia-driver"},
                                         Missing{"TCC_NVRTC", openNvrtc, "pip install nvidia-cuda-nvrtc"},
                                         Missing{"TCC_CUBLASLT", openCublasLt, "pip install nvidia-cublas"}}) {
    std::string saved = std::getenv(variable) ? std::getenv(variable) : "";
    setenv(variable, "/nonexistent/lib.so", 1);
    try {
      open();
      ADD_FAILURE() << variable << " was ignored";
    } catch (const CudaError &error) {
      std::string text = error.what();
      EXPECT_NE(text.find(install), std::string::npos) << text;
      EXPECT_NE(text.find("tried /nonexistent/lib.so"), std::string::npos) << text;
      EXPECT_NE(text.find(std::string("set ") + variable), std::string::npos) << text;
    }
    if (saved.empty())
      unsetenv(variable);
    else
      setenv(variable, saved.c_str(), 1);
  }
}

TEST(CudaLibrary, AFileThatIsNoDriverNamesTheMissingSymbol) {
  setenv("TCC_CUDA_DRIVER", "libm.so.6", 1);
  try {
    Driver::open();
    ADD_FAILURE() << "libm opened as a driver";
  } catch (const CudaError &error) {
    EXPECT_STREQ(error.what(), "libm.so.6 has no symbol cuInit: a newer version of it is needed");
  }
  unsetenv("TCC_CUDA_DRIVER");
}

TEST(CudaLibrary, AFolderInTheVariableIsSearched) {
  std::string folder = FAKE_DRIVER;
  folder.resize(folder.rfind('/'));
  setenv("FAKE_FOLDER", folder.c_str(), 1);
  Library library = Library::open({"the stand-in", "FAKE_FOLDER", {"absent.so", "tcc_fake_cuda_driver.so"}, {}, ""});
  EXPECT_EQ(library.path(), FAKE_DRIVER);
  EXPECT_EQ(library.find("noSuchFunction"), nullptr);
  unsetenv("FAKE_FOLDER");
}

// A library whose last handle is gone is still there: its threads and contexts may be at work. The stand-in's file is
// copied, so that nothing else holds it.
TEST(CudaLibrary, StaysToTheProcessEnd) {
  const std::string copy = testing::TempDir() + "/tcc_kept_" + std::to_string(getpid()) + ".so";
  std::filesystem::copy_file(FAKE_DRIVER, copy, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  Library::open({"the stand-in", "", {copy}, {}, ""});
  EXPECT_NE(dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  std::filesystem::remove(copy);
}

TEST(CudaLibrary, WheelFoldersOfTheVirtualEnvironmentAreSearched) {
  // The folder list depends on what exists, so a tree is made for it.
  std::string root = testing::TempDir() + "/tcc_wheel_test";
  std::string wheel = root + "/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib";
  ASSERT_EQ(std::system(("mkdir -p " + wheel).c_str()), 0);
  std::string saved = std::getenv("VIRTUAL_ENV") ? std::getenv("VIRTUAL_ENV") : "";
  setenv("VIRTUAL_ENV", root.c_str(), 1);
  std::vector<std::string> folders = toolkitFolders({"cuda_nvrtc/lib"});
  EXPECT_NE(std::find(folders.begin(), folders.end(), wheel), folders.end());
  if (saved.empty())
    unsetenv("VIRTUAL_ENV");
  else
    setenv("VIRTUAL_ENV", saved.c_str(), 1);
}

TEST(CudaLibrary, CublasLtResolvesWhereInstalled) {
  try {
    CublasLt lt = CublasLt::open();
    EXPECT_GE(lt.version(), 120000u);
    EXPECT_NE(lt.matmul, nullptr);
    try {
      lt.check(15, "choosing a product");
      ADD_FAILURE() << "a bad status passed";
    } catch (const CudaError &error) {
      EXPECT_STREQ(error.what(), "choosing a product: cuBLASLt status 15 (not supported: no algorithm for these types, "
                                 "layouts and alignments)");
    }
  } catch (const CudaError &error) {
    GTEST_SKIP() << error.what();
  }
}

} // namespace
