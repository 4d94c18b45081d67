// One matmul as its descriptors describe it, checked against what the documentation allows.
#pragma once

#include "tests/cuda_machine/cublaslt/objects.h"

namespace tcc::lt {

/// A stack of matrices as stored. A line is what lies contiguous: a column, or a row in row-major order.
struct Matrix {
  int type = float32, order = columnMajor, batches = 1;
  std::int64_t rows = 0, cols = 0, ld = 0, batchStride = 0;

  std::int64_t lineLength() const { return order == columnMajor ? rows : cols; }
  std::int64_t lines() const { return order == columnMajor ? cols : rows; }
  std::int64_t index(std::int64_t batch, std::int64_t row, std::int64_t col) const {
    return batch * batchStride + (order == columnMajor ? col * ld + row : row * ld + col);
  }
};

struct Problem {
  int computeType = compute32, pointerMode = pointerHost;
  bool transposeA = false, transposeB = false;
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c, d;
  unsigned epilogue = epilogueDefault;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t biasStride = 0, auxLd = 0, auxStride = 0;

  bool hasBias() const { return epilogue < epilogueBgradA && (epilogue & 4); }
  bool isGelu() const { return epilogue & 32; }
  bool isRelu() const { return epilogue & 2; }
  bool isGeluGradient() const { return epilogue & 64; }
  bool isReluGradient() const { return epilogue & 8; }
  bool isGradient() const { return isGeluGradient() || isReluGradient(); }
  bool hasAux() const { return epilogue & 128; }
  bool hasBitMask() const { return hasAux() && (isRelu() || isReluGradient()); }
  bool writesAux() const { return hasAux() && !isGradient(); }
  bool writesBias() const { return (epilogue & 16) || epilogue >= epilogueBgradA; }
  bool usesBias() const { return hasBias() || writesBias(); }
  std::int64_t biasLength() const { return epilogue == epilogueBgradB ? n : m; }
};

/// Fills `problem`; INVALID_VALUE for what contradicts itself, NOT_SUPPORTED for what the library has no kernels for.
/// `c` may be null: the layout of D.
Status describe(Desc desc, Layout a, Layout b, Layout c, Layout d, Problem &problem);

} // namespace tcc::lt
