// What the stand-in for cuBLASLt offers, in the names, values and sizes of NVIDIA's documentation (cuBLAS 13, chapter
// "Using the cuBLASLt API", and nvmath-python's tables of enumerators). Written apart from runtime/device/cuda, whose
// declarations it must not share: two readings of one document are the point.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcc::lt {

enum Status : int {
  success = 0,
  notInitialized = 1,
  allocFailed = 3,
  invalidValue = 7,
  archMismatch = 8,
  mappingError = 11,
  executionFailed = 13,
  internalError = 14,
  notSupported = 15,
  licenseError = 16,
};

/// cudaDataType_t; the others exist and are refused.
enum DataType : int { float32 = 0, float64 = 1, float16 = 2, bfloat16 = 14 };

/// cublasComputeType_t.
enum ComputeType : int {
  compute16 = 64,
  compute32 = 68,
  compute32Pedantic = 69,
  compute32Fast16 = 74,
  compute32FastBf16 = 75,
  compute32FastTf32 = 77,
};

/// cublasOperation_t and cublasLtOrder_t.
enum Transform : int { normal = 0, transposed = 1, conjugated = 2 };
enum Order : int { columnMajor = 0, rowMajor = 1 };
enum FillMode : int { fillFull = 2 };
enum PointerMode : int { pointerHost = 0, pointerDevice = 1 };

/// cublasLtEpilogue_t. The parts combine: auxiliary 128, bias 4, bias gradient 16.
enum Epilogue : unsigned {
  epilogueDefault = 1,
  epilogueRelu = 2,
  epilogueReluAux = 130,
  epilogueBias = 4,
  epilogueReluBias = 6,
  epilogueReluAuxBias = 134,
  epilogueDrelu = 136,
  epilogueDreluBgrad = 152,
  epilogueGelu = 32,
  epilogueGeluBias = 36,
  epilogueGeluAux = 160,
  epilogueGeluAuxBias = 164,
  epilogueDgelu = 192,
  epilogueDgeluBgrad = 208,
  epilogueBgradA = 256,
  epilogueBgradB = 512,
};

/// cublasLtMatmulDescAttributes_t.
enum DescAttribute : int {
  descComputeType = 0,
  descScaleType = 1,
  descPointerMode = 2,
  descTransA = 3,
  descTransB = 4,
  descTransC = 5,
  descFillMode = 6,
  descEpilogue = 7,
  descBiasPointer = 8,
  descBiasBatchStride = 10,
  descAuxPointer = 11,
  descAuxLd = 12,
  descAuxBatchStride = 13,
  descAlphaVectorBatchStride = 14,
  descSmCountTarget = 15,
  descFirstScale = 17, ///< 17 to 21: scales of narrow types and D's largest value
  descAuxDataType = 22,
  descAuxScale = 23,
  descAuxMax = 24,
  descFastAccumulation = 25,
  descBiasDataType = 26,
};

/// cublasLtMatrixLayoutAttribute_t.
enum LayoutAttribute : int {
  layoutType = 0,
  layoutOrder = 1,
  layoutRows = 2,
  layoutCols = 3,
  layoutLd = 4,
  layoutBatchCount = 5,
  layoutBatchOffset = 6,
  layoutPlaneOffset = 7,
  layoutBatchMode = 8,
};

/// cublasLtMatmulPreferenceAttributes_t.
enum PreferenceAttribute : int {
  preferenceSearchMode = 0,
  preferenceWorkspace = 1,
  preferenceReductionMask = 3,
  preferenceAlignA = 5,
  preferenceAlignB = 6,
  preferenceAlignC = 7,
  preferenceAlignD = 8,
  preferenceWaves = 9,
  preferenceImplementationMask = 12,
};

/// cublasLtMatmulAlgoConfigAttributes_t.
enum ConfigAttribute : int { configId = 0, configTile = 1, configSplitK = 2, configReduction = 3 };

/// cublasLtReductionScheme_t.
enum Reduction : unsigned {
  reductionNone = 0,
  reductionInPlace = 1,
  reductionComputeType = 2,
  reductionOutputType = 4,
  reductionMask = 7
};

struct Algo {
  std::uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  std::size_t workspaceSize;
  int state;
  float wavesCount;
  int reserved[4];
};

using Handle = struct HandleObject *;
using Desc = struct DescObject *;
using Layout = struct LayoutObject *;
using Preference = struct PreferenceObject *;

} // namespace tcc::lt

extern "C" {
std::size_t cublasLtGetVersion();
std::size_t cublasLtGetCudartVersion();
int cublasLtGetProperty(int type, int *value);
const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusString(int status);
int cublasLtCreate(tcc::lt::Handle *handle);
int cublasLtDestroy(tcc::lt::Handle handle);

int cublasLtMatmulDescCreate(tcc::lt::Desc *desc, int computeType, int scaleType);
int cublasLtMatmulDescDestroy(tcc::lt::Desc desc);
int cublasLtMatmulDescSetAttribute(tcc::lt::Desc desc, int attribute, const void *value, std::size_t bytes);
int cublasLtMatmulDescGetAttribute(tcc::lt::Desc desc, int attribute, void *value, std::size_t bytes,
                                   std::size_t *written);

int cublasLtMatrixLayoutCreate(tcc::lt::Layout *layout, int type, std::uint64_t rows, std::uint64_t cols,
                               std::int64_t ld);
int cublasLtMatrixLayoutDestroy(tcc::lt::Layout layout);
int cublasLtMatrixLayoutSetAttribute(tcc::lt::Layout layout, int attribute, const void *value, std::size_t bytes);
int cublasLtMatrixLayoutGetAttribute(tcc::lt::Layout layout, int attribute, void *value, std::size_t bytes,
                                     std::size_t *written);

int cublasLtMatmulPreferenceCreate(tcc::lt::Preference *preference);
int cublasLtMatmulPreferenceDestroy(tcc::lt::Preference preference);
int cublasLtMatmulPreferenceSetAttribute(tcc::lt::Preference preference, int attribute, const void *value,
                                         std::size_t bytes);
int cublasLtMatmulPreferenceGetAttribute(tcc::lt::Preference preference, int attribute, void *value, std::size_t bytes,
                                         std::size_t *written);

int cublasLtMatmulAlgoGetHeuristic(tcc::lt::Handle handle, tcc::lt::Desc desc, tcc::lt::Layout a, tcc::lt::Layout b,
                                   tcc::lt::Layout c, tcc::lt::Layout d, tcc::lt::Preference preference, int requested,
                                   tcc::lt::HeuristicResult *results, int *returned);
int cublasLtMatmulAlgoCheck(tcc::lt::Handle handle, tcc::lt::Desc desc, tcc::lt::Layout a, tcc::lt::Layout b,
                            tcc::lt::Layout c, tcc::lt::Layout d, const tcc::lt::Algo *algo,
                            tcc::lt::HeuristicResult *result);
int cublasLtMatmulAlgoConfigGetAttribute(const tcc::lt::Algo *algo, int attribute, void *value, std::size_t bytes,
                                         std::size_t *written);
int cublasLtMatmul(tcc::lt::Handle handle, tcc::lt::Desc desc, const void *alpha, const void *a,
                   tcc::lt::Layout aLayout, const void *b, tcc::lt::Layout bLayout, const void *beta, const void *c,
                   tcc::lt::Layout cLayout, void *d, tcc::lt::Layout dLayout, const tcc::lt::Algo *algo,
                   void *workspace, std::size_t workspaceBytes, void *stream);

// --- What the real library does not have ---------------------------------------------------------------------------
/// Why this thread's last call did not succeed, in words; empty after a success.
const char *tccCublasLtReason();
/// The `nth` call (1: the next) of `function` answers `status` and does nothing. TCC_CUBLASLT_FAIL=cublasLtMatmul=14
/// does it from outside, with `@3` for the third call.
void tccCublasLtFail(const char *function, int status, int nth);
/// Handles and descriptors not yet destroyed.
int tccCublasLtLive();
/// Matmuls that have run, those of replayed graphs too.
long tccCublasLtProducts();
}
