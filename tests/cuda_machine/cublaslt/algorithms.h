// The choices that cublasLtMatmulAlgoGetHeuristic offers. All of them give the same bits, except one that adds up parts
// in the result's type where that has 16 bits, and one that a test may ask for by TCC_CUBLASLT_UNSTABLE.
#pragma once

#include "tests/cuda_machine/cublaslt/problem.h"

namespace tcc::lt {

/// What lies in the 64 bytes of a cublasLtMatmulAlgo_t.
struct AlgoData {
  static constexpr std::uint32_t markOf = 0x6c744135;
  std::uint32_t mark, version;
  std::uint32_t id, tile, splitK, reduction;
  std::uint8_t computeType, operandType, resultType, unstable;
  /// Bytes that every operand's address is a multiple of: what the preferences promised.
  std::uint32_t aligned[4];
  std::uint32_t checksum;
  std::uint64_t workspace;
  std::uint64_t reserved;
};
static_assert(sizeof(AlgoData) == sizeof(Algo));

/// What the caller promises about addresses and workspace.
struct Promise {
  std::uint32_t aligned[4] = {256, 256, 256, 256}; ///< of A, B, C, D
  std::uint64_t workspace = 0;
  std::uint32_t reductions = reductionMask;
};

/// Fills up to `most` algorithms, best first; returns how many.
int candidates(const Problem &problem, const Promise &promise, AlgoData *found, int most);
/// Reads the caller's 64 bytes: INVALID_VALUE unless this release made them, for these types and with this shape's
/// strides as aligned as the algorithm needs.
Status readAlgo(const Algo *algo, const Problem &problem, AlgoData &data);
Algo writeAlgo(const AlgoData &data);

} // namespace tcc::lt
