// Resolves the driver's functions and turns its error codes into text.
#include "runtime/device/cuda/driver.h"

namespace tcc::runtime::cuda {

namespace {

LibrarySearch driverSearch() {
  LibrarySearch search;
  search.title = "the CUDA driver";
  search.environment = "TCC_CUDA_DRIVER";
  search.fileNames = {"libcuda.so.1", "libcuda.so"};
  search.folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"};
  search.install =
      "install NVIDIA's driver (Debian: `apt-get install nvidia-driver`) and check with `nvidia-smi`; in a "
      "container start it with `--gpus all`";
  return search;
}

} // namespace

bool Driver::isInstalled() {
  try {
    Library::open(driverSearch());
    return true;
  } catch (const CudaError &) {
    return false;
  }
}

Driver Driver::open() {
  Driver driver;
  driver.library = Library::open(driverSearch());
#define TCC_RESOLVE(member, symbol, parameters)                                                                        \
  driver.member = reinterpret_cast<Result(*) parameters>(driver.library.get(#symbol));
  TCC_CUDA_DRIVER_FUNCTIONS(TCC_RESOLVE)
#undef TCC_RESOLVE
  driver.encodeTensorMap = reinterpret_cast<EncodeTensorMap>(driver.library.find("cuTensorMapEncodeTiled"));
  driver.check(driver.init(0), "starting the CUDA driver");
  return driver;
}

void Driver::check(Result result, const std::string &doing) const {
  if (result == 0)
    return;
  const char *name = nullptr;
  const char *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  throw CudaError(doing + ": " + (name ? name : "CUDA error " + std::to_string(result)) + " (" +
                      (text ? text : "no description") + ")",
                  result);
}

} // namespace tcc::runtime::cuda
