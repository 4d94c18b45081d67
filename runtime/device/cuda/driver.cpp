// Resolves the driver's functions, turns its error codes into text, and says which libraries fit it.
#include "runtime/device/cuda/driver.h"

#include <algorithm>

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

std::optional<int> Driver::installedVersion() {
  if (!isInstalled())
    return std::nullopt;
  return resolved().version();
}

int Driver::version() const {
  int version = 0;
  check(driverGetVersion(&version), "reading the driver's version");
  return version;
}

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

constexpr int oldestMajor = 12, newestMajor = 13; // of the libraries that there are

std::vector<std::string> DriverFit::fileNames(const std::string &name) const {
  std::vector<std::string> names;
  const int own = driver ? *driver / 1000 : newestMajor;
  for (int major = own; major >= oldestMajor; --major)
    names.push_back(name + "." + std::to_string(major));
  names.push_back(name);
  for (int major = std::max(own + 1, oldestMajor); major <= newestMajor; ++major)
    names.push_back(name + "." + std::to_string(major)); // to say that it does not fit
  return names;
}

std::string DriverFit::misfit(int version) const {
  if (!driver || version / 1000 <= *driver / 1000)
    return "";
  return "is of CUDA " + versionText(version) + "; the driver, for CUDA " + versionText(*driver) +
         ", takes code of CUDA " + std::to_string(*driver / 1000) + " and older";
}

std::string DriverFit::install(const std::string &package) const {
  if (!driver)
    return "`pip install " + package + "` (or " + package +
           "-cu12 for a driver before 580), or install the CUDA toolkit, 12.8 or later";
  if (*driver / 1000 >= newestMajor)
    return "`pip install " + package + "`, or install the CUDA toolkit";
  return "`pip install " + package +
         "-cu12`, or install the CUDA toolkit 12.8 or 12.9; or update the driver: 580 and newer are for CUDA 13";
}

Driver Driver::resolved() {
  Driver driver;
  driver.library = Library::open(driverSearch());
#define TCC_RESOLVE(member, symbol, parameters)                                                                        \
  driver.member = reinterpret_cast<Result(*) parameters>(driver.library.get(#symbol));
  TCC_CUDA_DRIVER_FUNCTIONS(TCC_RESOLVE)
#undef TCC_RESOLVE
  driver.encodeTensorMap = reinterpret_cast<EncodeTensorMap>(driver.library.find("cuTensorMapEncodeTiled"));
  return driver;
}

Driver Driver::open() {
  Driver driver = resolved();
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
