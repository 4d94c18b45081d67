#include "codegen/cuda/doctor.h"
#include "codegen/cuda/self_test.h"
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nccl.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/device/cuda/step_device.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <optional>

namespace tcc::cuda {
namespace {

using runtime::CudaError;

class GpuDoctor {
public:
  explicit GpuDoctor(llvm::raw_ostream &os) : os(os) {}

  bool run() {
    os << "for NVIDIA GPUs (not needed for the CPU):\n";
    lookAt("driver", "runs kernels", [&] {
      const auto driver = runtime::cuda::Driver::open();
      driver.check(driver.deviceGetCount(&devices), "counting GPUs");
      return driver.library.path() + ", for CUDA " + runtime::cuda::versionText(driver.version());
    });
    lookAt("NVRTC", "compiles kernels", [&] {
      nvrtc.emplace(runtime::cuda::Nvrtc::open());
      return nvrtc->path() + ", version " + std::to_string(nvrtc->version() / 1000) + "." +
             std::to_string(nvrtc->version() % 1000);
    });
    lookAt("cuBLASLt", "matrix products", [&] {
      const auto library = runtime::cuda::CublasLt::open();
      hasProducts = true;
      return library.path() + ", version " + std::to_string(library.version());
    });
    lookAt("NCCL", "several GPUs", [] {
      const auto library = runtime::cuda::Nccl::open();
      return library.path() + ", version " + runtime::cuda::ncclVersionText(library.version());
    });
    if (devices == 0)
      row(false, "device", "there is none that the driver shows: check `nvidia-smi` and CUDA_VISIBLE_DEVICES");
    for (int ordinal = 0; ordinal < devices; ++ordinal)
      lookAtDevice(ordinal);
    return isWell;
  }

private:
  llvm::raw_ostream &os;
  int devices = 0;
  std::optional<runtime::cuda::Nvrtc> nvrtc;
  bool hasProducts = false, isWell = true;

  /// Further lines of `detail` stand below its first.
  void row(bool good, llvm::StringRef what, const std::string &detail) {
    os << (good ? "  ok       " : "  missing  ") << llvm::left_justify(what, 14);
    for (const char c : detail)
      if (os << c; c == '\n')
        os.indent(11);
    os << '\n';
  }

  template <typename Look>
  bool lookAt(llvm::StringRef what, const std::string &purpose, Look &&look) {
    try {
      row(true, what, purpose + ": " + look());
      return true;
    } catch (const CudaError &error) {
      row(false, what, purpose + "; " + error.what());
      return false;
    }
  }

  void lookAtDevice(int ordinal) {
    std::string architecture;
    const bool opens = lookAt("device", "cuda:" + std::to_string(ordinal), [&] {
      const auto device = runtime::cuda::Device::open(ordinal);
      architecture = device->architecture();
      return device->name() + ", " + std::to_string(device->totalMemory() >> 20) + " MiB, " +
             std::to_string(device->attribute(runtime::cuda::attributeMultiprocessors)) + " multiprocessors";
    });
    if (!opens || !nvrtc)
      return;
    const bool known = nvrtc->supports(architecture);
    row(known, "architecture",
        known ? architecture : architecture + ": " + nvrtc->unknown(architecture) + "; a newer one may");
    if (!known || !hasProducts)
      return;
    auto device = runtime::cuda::openStepDevice({.ordinal = ordinal});
    const runtime::Error problem = device ? selfTest(*device) : device.error();
    isWell &= !problem;
    os << (problem ? "  FAILED   " : "  ok       ") << llvm::left_justify("self-test", 14)
       << (problem ? problem.message() : "a kernel, a product and a captured graph give the host's values") << '\n';
  }
};

} // namespace

bool examineGpus(llvm::raw_ostream &os) {
  return GpuDoctor(os).run();
}

} // namespace tcc::cuda
