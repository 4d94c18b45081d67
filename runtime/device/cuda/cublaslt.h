// cuBLASLt opened at run time: the functions that a matmul needs, and owners of its handles. Enumerator values
// are those of the library's documented C interface.
#pragma once

#include "runtime/device/cuda/library.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tcc::runtime::cuda {

enum LtType : int { ltFloat32 = 0, ltFloat16 = 2, ltBfloat16 = 14 };
enum LtCompute : int { ltComputeFloat32 = 68, ltComputeTf32 = 77 };
enum LtTranspose : int { ltPlain = 0, ltTransposed = 1 };
enum LtEpilogue : int { ltNoEpilogue = 1, ltBias = 4, ltGeluGradient = 192 };

/// The status that the library returns if it has no algorithm.
constexpr int ltNotSupported = 15;

enum LtDescAttribute : int {
  ltDescTransposeA = 3,
  ltDescTransposeB = 4,
  ltDescEpilogue = 7,
  ltDescBiasPointer = 8,
  ltDescAuxPointer = 11,
  ltDescAuxLeading = 12,
  ltDescBiasType = 26,
};

enum LtLayoutAttribute : int { ltLayoutBatchCount = 5, ltLayoutBatchStride = 6 };

enum LtPreferenceAttribute : int {
  ltPreferWorkspaceBytes = 1,
  ltPreferReductions = 3,
  ltPreferAlignmentA = 5,
  ltPreferAlignmentB = 6,
  ltPreferAlignmentC = 7,
  ltPreferAlignmentD = 8,
};

/// Ways to add up the parts of a split sum. With these two the order is fixed; with the library's third way, in place,
/// it is not.
enum LtReduction : int { ltReduceInComputeType = 2, ltReduceInOutputType = 4 };

/// What cublasLtMatmulAlgoGetHeuristic returns; the algorithm is opaque.
struct LtHeuristic {
  std::uint64_t algorithm[8];
  std::size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

/// One line a function: member, exported symbol, parameter types. All return a status, 0 on success.
#define TCC_CUBLASLT_FUNCTIONS(X)                                                                                      \
  X(create, cublasLtCreate, (void **))                                                                                 \
  X(destroy, cublasLtDestroy, (void *))                                                                                \
  X(matmulDescCreate, cublasLtMatmulDescCreate, (void **, int computeType, int scaleType))                             \
  X(matmulDescDestroy, cublasLtMatmulDescDestroy, (void *))                                                            \
  X(matmulDescSet, cublasLtMatmulDescSetAttribute, (void *, int attribute, const void *, std::size_t))                 \
  X(layoutCreate, cublasLtMatrixLayoutCreate,                                                                          \
    (void **, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading))                              \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, (void *))                                                              \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute, (void *, int attribute, const void *, std::size_t))                   \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, (void **))                                                       \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, (void *))                                                      \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, (void *, int attribute, const void *, std::size_t))           \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                         \
    (void *, void *, void *, void *, void *, void *, void *, int wanted, LtHeuristic *, int *found))                   \
  X(matmul, cublasLtMatmul,                                                                                            \
    (void *, void *, const void *alpha, const void *a, void *, const void *b, void *, const void *beta, const void *c, \
     void *, void *d, void *, const void *algorithm, void *workspace, std::size_t workspaceBytes, void *stream))

class CublasLt {
public:
  /// Opens the cuBLASLt that fits the driver (DriverFit). It looks at TCC_CUBLASLT if that is set, else in
  /// toolkitFolders() and then on the loader's path. Needs no device. Throws CudaError with the reasons and an install
  /// line.
  static CublasLt open();

  /// The library's version as one number: 10000·major + 100·minor + patch.
  std::size_t version() const { return versionNumber; }
  const std::string &path() const { return library.path(); }
  /// Throws CudaError "doing: status N (meaning)" unless `status` is 0.
  void check(int status, const std::string &doing) const;

  /// cublasLtMatmulAlgoCheck: whether an algorithm fits a matmul.
  using AlgorithmCheck = int (*)(void *handle, void *desc, void *a, void *b, void *c, void *d, const void *algorithm,
                                 LtHeuristic *);

  Library library;
  AlgorithmCheck checkAlgorithm = nullptr;
#define TCC_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  TCC_CUBLASLT_FUNCTIONS(TCC_DECLARE)
#undef TCC_DECLARE

private:
  std::size_t versionNumber = 0;
};

} // namespace tcc::runtime::cuda
