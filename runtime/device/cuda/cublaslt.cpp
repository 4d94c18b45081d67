// Resolves cuBLASLt's functions and names its statuses.
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/driver.h"

namespace tcc::runtime::cuda {

namespace {

const char *meaning(int status) {
  switch (status) {
  case 1:
    return "not initialised: no usable GPU or driver";
  case 3:
    return "allocation failed";
  case 7:
    return "invalid value";
  case 8:
    return "architecture mismatch: the device lacks the feature";
  case 11:
    return "mapping error";
  case 13:
    return "execution failed";
  case 14:
    return "internal error";
  case ltNotSupported:
    return "not supported: no algorithm for these types, layouts and alignments";
  default:
    return "see cublasStatus_t";
  }
}

} // namespace

namespace {

using VersionFunction = std::size_t (*)();

/// As the driver's version is written: 12080 of 120805.
int cudaVersionOf(const Library &library) {
  const auto version = static_cast<int>(reinterpret_cast<VersionFunction>(library.get("cublasLtGetVersion"))());
  return version / 10000 * 1000 + version % 10000 / 100 * 10;
}

} // namespace

CublasLt CublasLt::open() {
  const DriverFit fit;
  LibrarySearch search;
  search.title = "cuBLASLt (NVIDIA's matrix products)";
  search.environment = "TCC_CUBLASLT";
  search.fileNames = fit.fileNames("libcublasLt.so");
  search.wheelFolders = {"cu13/lib", "cublas/lib"};
  search.folders = toolkitFolders(search.wheelFolders);
  search.install = fit.install("nvidia-cublas");
  search.misfit = [&](const Library &library) { return fit.misfit(cudaVersionOf(library)); };
  CublasLt lt;
  lt.library = Library::open(search);
#define TCC_RESOLVE(member, symbol, parameters)                                                                        \
  lt.member = reinterpret_cast<int(*) parameters>(lt.library.get(#symbol));
  TCC_CUBLASLT_FUNCTIONS(TCC_RESOLVE)
#undef TCC_RESOLVE
  lt.checkAlgorithm = reinterpret_cast<AlgorithmCheck>(lt.library.get("cublasLtMatmulAlgoCheck"));
  lt.versionNumber = reinterpret_cast<VersionFunction>(lt.library.get("cublasLtGetVersion"))();
  return lt;
}

void CublasLt::check(int status, const std::string &doing) const {
  if (status != 0)
    throw CudaError(doing + ": cuBLASLt status " + std::to_string(status) + " (" + meaning(status) + ")");
}

} // namespace tcc::runtime::cuda
