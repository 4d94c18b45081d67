// ProductOperand: an operand of a matmul as lines over depth, where lines are rows of A or columns of B. The folders
// panels/ and tiles/ read operands in this way.
#pragma once
#include "runtime/gemm.h"

namespace tcc::runtime {

constexpr int64_t ceilDiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

inline const char *offset(const void *data, DType dtype, int64_t elements) {
  return static_cast<const char *>(data) + elements * byteSize(dtype);
}

/// One operand of a matmul without batches. Strides are in elements, and one of the two is 1.
struct ProductOperand {
  const void *data = nullptr;
  DType dtype = DType::bf16;
  int64_t lines = 0, lineStride = 0;
  int64_t depth = 0, depthStride = 0;

  /// The part of the operand from line `line` and depth `firstDepth` on.
  ProductOperand from(int64_t line, int64_t firstDepth) const {
    ProductOperand rest = *this;
    rest.data = offset(data, dtype, line * lineStride + firstDepth * depthStride);
    rest.lines -= line;
    rest.depth -= firstDepth;
    return rest;
  }
};

/// A with its rows as lines, without data.
inline ProductOperand leftOf(const GemmDesc &desc) {
  const MatrixLayout a = normalized(desc.a, desc.m, desc.k);
  return {nullptr, a.dtype, desc.m, a.rowStride, desc.k, a.columnStride};
}

/// B with its columns as lines, without data.
inline ProductOperand rightOf(const GemmDesc &desc) {
  const MatrixLayout b = normalized(desc.b, desc.k, desc.n);
  return {nullptr, b.dtype, desc.n, b.columnStride, desc.k, b.rowStride};
}

/// Where element `index` of the batch begins.
inline const char *batchElement(const void *data, const GemmDesc &desc, const MatrixLayout &layout, int64_t index) {
  return offset(data, layout.dtype,
                index / desc.batch[1] * layout.batchStrides[0] + index % desc.batch[1] * layout.batchStrides[1]);
}

} // namespace tcc::runtime
