// Resolves cuBLASLt's functions and names its statuses.
#include "runtime/device/cuda/cublaslt.h"

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
  case 15:
    return "not supported: no algorithm for these types, layouts and alignments";
  default:
    return "see cublasStatus_t";
  }
}

} // namespace

CublasLt CublasLt::open() {
  LibrarySearch search;
  search.title = "cuBLASLt (NVIDIA's matrix products)";
  search.environment = "TCC_CUBLASLT";
  search.fileNames = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  search.folders = toolkitFolders({"cu13/lib", "cublas/lib"});
  search.install = "`pip install nvidia-cublas` (or nvidia-cublas-cu12 for a driver before 580), or install the CUDA "
                   "toolkit";
  CublasLt lt;
  lt.library = Library::open(search);
#define TCC_RESOLVE(member, symbol, parameters)                                                                        \
  lt.member = reinterpret_cast<int(*) parameters>(lt.library.get(#symbol));
  TCC_CUBLASLT_FUNCTIONS(TCC_RESOLVE)
#undef TCC_RESOLVE
  lt.checkAlgorithm = reinterpret_cast<AlgorithmCheck>(lt.library.get("cublasLtMatmulAlgoCheck"));
  lt.versionNumber = reinterpret_cast<std::size_t (*)()>(lt.library.get("cublasLtGetVersion"))();
  return lt;
}

void CublasLt::check(int status, const std::string &doing) const {
  if (status != 0)
    throw CudaError(doing + ": cuBLASLt status " + std::to_string(status) + " (" + meaning(status) + ")");
}

} // namespace tcc::runtime::cuda
