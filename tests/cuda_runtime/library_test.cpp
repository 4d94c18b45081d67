// What a user sees when a library is missing, and where it is looked for.
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/nvrtc.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
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

/// A variable of the environment with another value for a while.
class WithVariable {
public:
  WithVariable(const char *name, const std::string &value) : name(name) {
    if (const char *before = std::getenv(name))
      saved = before;
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }
  ~WithVariable() { saved ? setenv(name, saved->c_str(), 1) : unsetenv(name); }

private:
  const char *name;
  std::optional<std::string> saved;
};

// The folder list depends on what exists, so a tree is made for it.
TEST(CudaLibrary, EnvironmentsOfPythonAreSearched) {
  const std::string root = testing::TempDir() + "tcc_wheel_test_" + std::to_string(getpid());
  for (const char *each : {"venv", "conda", "path"}) {
    std::filesystem::create_directories(root + "/" + each + "/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib");
    std::filesystem::create_directories(root + "/" + each + "/bin");
  }
  std::ofstream(root + "/path/bin/python3") << "#!/bin/sh\n";
  const WithVariable venv("VIRTUAL_ENV", root + "/venv"), conda("CONDA_PREFIX", root + "/conda"),
      path("PATH", "/nowhere/bin:" + root + "/conda/lib:" + root + "/path/bin:/usr/bin");
  const std::vector<std::string> folders = toolkitFolders({"cuda_nvrtc/lib"});
  auto place = [&](const std::string &folder) {
    return std::find(folders.begin(), folders.end(), root + folder) - folders.begin();
  };
  const std::string wheel = "/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib";
  const auto count = static_cast<std::ptrdiff_t>(folders.size());
  EXPECT_LT(place("/venv" + wheel), place("/conda" + wheel));
  EXPECT_LT(place("/conda" + wheel), place("/conda/lib"));
  EXPECT_LT(place("/conda/lib"), place("/path" + wheel));
  EXPECT_LT(place("/path" + wheel), count) << "beside the python3 of $PATH";
  EXPECT_LT(place("/conda/targets/x86_64-linux/lib"), count);
  std::filesystem::remove_all(root);
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
