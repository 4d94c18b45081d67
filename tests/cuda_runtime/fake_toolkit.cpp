// Stands in for NVRTC and cuBLASLt of one major version at once, as far as they are opened: it tells its version and
// computes nothing.
#include <cstddef>

extern "C" {
int nvrtcVersion(int *major, int *minor) {
  *major = MAJOR;
  *minor = 8;
  return 0;
}
int nvrtcGetNumSupportedArchs(int *count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int *numbers) {
  *numbers = 90;
  return 0;
}
std::size_t cublasLtGetVersion() {
  return MAJOR * 10000 + 805;
}
#define NOTHING(name)                                                                                                  \
  int name() {                                                                                                         \
    return 1;                                                                                                          \
  }
NOTHING(nvrtcCreateProgram)
NOTHING(nvrtcDestroyProgram)
NOTHING(nvrtcCompileProgram)
NOTHING(nvrtcGetProgramLogSize)
NOTHING(nvrtcGetProgramLog)
NOTHING(nvrtcGetCUBINSize)
NOTHING(nvrtcGetCUBIN)
NOTHING(nvrtcGetPTXSize)
NOTHING(nvrtcGetPTX)
NOTHING(nvrtcGetErrorString)
NOTHING(cublasLtCreate)
NOTHING(cublasLtDestroy)
NOTHING(cublasLtMatmulDescCreate)
NOTHING(cublasLtMatmulDescDestroy)
NOTHING(cublasLtMatmulDescSetAttribute)
NOTHING(cublasLtMatrixLayoutCreate)
NOTHING(cublasLtMatrixLayoutDestroy)
NOTHING(cublasLtMatrixLayoutSetAttribute)
NOTHING(cublasLtMatmulPreferenceCreate)
NOTHING(cublasLtMatmulPreferenceDestroy)
NOTHING(cublasLtMatmulPreferenceSetAttribute)
NOTHING(cublasLtMatmulAlgoGetHeuristic)
NOTHING(cublasLtMatmulAlgoCheck)
NOTHING(cublasLtMatmul)
}
