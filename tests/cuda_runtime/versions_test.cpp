// NVRTC and cuBLASLt follow the driver's major version: which of several is taken, and what is said where none fits.
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/nvrtc.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

/// A folder with libraries of some versions, and a driver.
class CudaVersions : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TCC_CUDA_DRIVER", FAKE_DRIVER, 1);
    driverVersion = reinterpret_cast<int *(*)()>(
        Library::open({"the stand-in driver", "", {FAKE_DRIVER}, {}, ""}).get("fakeDriverVersion"))();
  }
  void TearDown() override {
    *driverVersion = 13000;
    for (const char *variable : {"TCC_CUDA_DRIVER", "TCC_NVRTC", "TCC_CUBLASLT"})
      unsetenv(variable);
    std::filesystem::remove_all(folder);
  }
  /// Into a new folder: the loader knows an open library by its path.
  void install(std::initializer_list<int> majors) {
    static int count = 0;
    std::filesystem::remove_all(folder);
    folder = testing::TempDir() + "tcc_versions_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    std::filesystem::create_directories(folder);
    setenv("TCC_NVRTC", folder.c_str(), 1);
    setenv("TCC_CUBLASLT", folder.c_str(), 1);
    for (int major : majors)
      for (const char *name : {"/libnvrtc.so.", "/libcublasLt.so."})
        std::filesystem::create_symlink(major == 12 ? FAKE_TOOLKIT_12 : FAKE_TOOLKIT_13,
                                        folder + name + std::to_string(major));
  }
  /// "nvrtc 12 cublaslt 12", or what is said where one does not open.
  std::string opened() const {
    try {
      const std::string nvrtc = "nvrtc " + std::to_string(Nvrtc::open().version() / 1000);
      return nvrtc + " cublaslt " + std::to_string(CublasLt::open().version() / 10000);
    } catch (const CudaError &error) {
      return error.what();
    }
  }
  std::string folder;
  int *driverVersion = nullptr;
};

TEST_F(CudaVersions, TheOneThatFitsTheDriverIsTaken) {
  struct Case {
    int driver;
    std::initializer_list<int> installed;
    const char *taken;
  };
  for (const Case &each : {Case{12000, {12, 13}, "nvrtc 12 cublaslt 12"},
                           {12090, {12, 13}, "nvrtc 12 cublaslt 12"},
                           {12040, {12}, "nvrtc 12 cublaslt 12"}, // 12.8 on 12.4: minor versions do not count
                           {13000, {12, 13}, "nvrtc 13 cublaslt 13"},
                           {13000, {12}, "nvrtc 12 cublaslt 12"},
                           {14000, {12, 13}, "nvrtc 13 cublaslt 13"}}) {
    install(each.installed);
    *driverVersion = each.driver;
    EXPECT_EQ(opened(), each.taken) << each.driver;
  }
}

TEST_F(CudaVersions, WithoutADriverTheNewestIsTaken) {
  setenv("TCC_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
  install({12, 13});
  EXPECT_EQ(opened(), "nvrtc 13 cublaslt 13");
  install({12});
  EXPECT_EQ(opened(), "nvrtc 12 cublaslt 12");
}

TEST_F(CudaVersions, WhereOnlyANewerOneIsThereOneTextSaysWhatToInstall) {
  install({13});
  *driverVersion = 12040;
  const std::string file = folder + "/libnvrtc.so.13";
  EXPECT_EQ(opened(), "NVRTC (NVIDIA's run-time compiler) does not fit\n  " + file +
                          " is of CUDA 13.8; the driver, for CUDA 12.4, takes code of CUDA 12 and older\n  to get one "
                          "that does: `pip install nvidia-cuda-nvrtc-cu12`, or install the CUDA toolkit 12.8 or 12.9; "
                          "or update the driver: 580 and newer are for CUDA 13\n  or set TCC_NVRTC to the library's "
                          "file or folder, or to a Python environment");
  // A file by its name, and one whose name tells no version.
  setenv("TCC_NVRTC", file.c_str(), 1);
  EXPECT_NE(opened().find("takes code of CUDA 12 and older"), std::string::npos) << opened();
  std::filesystem::create_symlink(FAKE_TOOLKIT_13, folder + "/libnvrtc.so");
  setenv("TCC_NVRTC", folder.c_str(), 1);
  const std::string text = opened();
  EXPECT_EQ(text.find("takes code"), text.rfind("takes code")) << "one file, said once: " << text;
  try {
    CublasLt::open();
    ADD_FAILURE() << "a newer cuBLASLt was taken";
  } catch (const CudaError &error) {
    EXPECT_NE(std::string(error.what()).find("`pip install nvidia-cublas-cu12`"), std::string::npos) << error.what();
  }
}

// An environment by pip and one by conda, each with the libraries of both versions.
TEST_F(CudaVersions, EnvironmentsOfPythonAreNamedByTheirFolder) {
  install({});
  auto link = [&](const std::string &file, const char *toolkit) {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + file).parent_path());
    std::filesystem::create_symlink(toolkit, folder + "/" + file);
  };
  const std::string packages = "venv/lib/python3.12/site-packages";
  link(packages + "/nvidia/cublas/lib/libcublasLt.so.12", FAKE_TOOLKIT_12);
  link(packages + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", FAKE_TOOLKIT_12);
  link(packages + "/nvidia/cu13/lib/libcublasLt.so.13", FAKE_TOOLKIT_13);
  link(packages + "/nvidia/cu13/lib/libnvrtc.so.13", FAKE_TOOLKIT_13);
  for (const char *library : {"libcublasLt.so", "libnvrtc.so"}) {
    link("conda/lib/" + std::string(library) + ".12", FAKE_TOOLKIT_12);
    link("conda/targets/x86_64-linux/lib/" + std::string(library) + ".13", FAKE_TOOLKIT_13);
  }
  for (const std::string &place : {std::string("venv"), packages, std::string("conda")}) {
    setenv("TCC_NVRTC", (folder + "/" + place).c_str(), 1);
    setenv("TCC_CUBLASLT", (folder + "/" + place).c_str(), 1);
    *driverVersion = 12040;
    EXPECT_EQ(opened(), "nvrtc 12 cublaslt 12") << place;
    *driverVersion = 13000;
    EXPECT_EQ(opened(), "nvrtc 13 cublaslt 13") << place;
  }
}

TEST_F(CudaVersions, ArchitecturesAreThoseOfTheLibrarysList) {
  install({12});
  const Nvrtc nvrtc = Nvrtc::open();
  for (const char *known : {"sm_90", "sm_90a", "compute_90", "compute_90a"})
    EXPECT_TRUE(nvrtc.supports(known)) << known;
  for (const char *unknown : {"sm_80", "sm_100a", "sm_90f", "sm_90b", "sm_", "90", "sm_9", "compute_900"})
    EXPECT_FALSE(nvrtc.supports(unknown)) << unknown;
  EXPECT_EQ(nvrtc.unknown("sm_80"),
            "this NVRTC, 12.8 (" + folder + "/libnvrtc.so.12), does not know the architecture `sm_80`; it knows 90");
}

} // namespace
