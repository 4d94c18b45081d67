// --doctor and --version: what is here, what is missing, and how to get it.
#include "frontend/driver/driver.h"
#include "runtime/cpu.h"
#include "runtime/threads.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Format.h"
#include "llvm/TargetParser/Host.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <unistd.h>

namespace tcc::driver {
namespace {

/// Whether a shared library can be opened.
bool opens(const char *library) {
  void *handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle)
    ::dlclose(handle);
  return handle;
}

std::string dnnlVersion() {
  return std::to_string(DNNL_VERSION_MAJOR) + "." + std::to_string(DNNL_VERSION_MINOR) + "." +
         std::to_string(DNNL_VERSION_PATCH);
}

} // namespace

void printVersion(llvm::raw_ostream &os) {
  os << "tcc " << versionText << "\nLLVM " << LLVM_VERSION_STRING << ", oneDNN " << dnnlVersion() << ", target "
     << llvm::sys::getDefaultTargetTriple() << '\n';
}

int runDoctor(llvm::raw_ostream &os) {
  int missing = 0;
  auto row = [&](bool good, llvm::StringRef what, const std::string &detail) {
    os << (good ? "  ok       " : "  missing  ") << llvm::left_justify(what, 12) << detail << '\n';
  };
  os << "tcc " << versionText << '\n';

  // 1. What the CPU target needs.
  const std::string features = runtime::cpuFeatures();
  const bool vectors = llvm::StringRef(features).contains("avx2");
  row(true, "CPU", llvm::sys::getHostCPUName().str() + ": " + features);
  if (!vectors)
    os << "           no AVX2: code uses 16-byte vectors and is slower\n";
  row(true, "threads", std::to_string(runtime::availableThreads()) + " that this process may use");
  const int64_t memory = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  row(true, "memory", std::to_string(memory >> 20) + " MiB");
  row(true, "LLVM", LLVM_VERSION_STRING);
  row(true, "oneDNN", dnnlVersion());
  const bool mapped = ::access("/proc/self/fd", R_OK) == 0;
  missing += !mapped;
  row(mapped, "/proc",
      mapped ? "compiled code is loaded from memory" : "compiled code is loaded through /proc/self/fd; mount /proc");

  // 2. What a GPU would need; the CPU works without it.
  const bool driver = opens("libcuda.so.1"), nvrtc = opens("libnvrtc.so.13") || opens("libnvrtc.so.12"),
             cublas = opens("libcublasLt.so.13") || opens("libcublasLt.so.12");
  os << "for NVIDIA GPUs (not needed for the CPU):\n";
  row(driver, "driver",
      driver ? "libcuda.so.1" : "libcuda.so.1: install NVIDIA's driver (apt-get install nvidia-driver)");
  row(nvrtc, "NVRTC", nvrtc ? "found" : "libnvrtc: install the CUDA toolkit, or pip install nvidia-cuda-nvrtc");
  row(cublas, "cuBLASLt", cublas ? "found" : "libcublasLt: install the CUDA toolkit, or pip install nvidia-cublas");
  return missing ? exitDiagnosed : exitSuccess;
}

} // namespace tcc::driver
