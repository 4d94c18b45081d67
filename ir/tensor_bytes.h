// How many bytes tensors take in memory.
#pragma once
#include "mlir/IR/BuiltinTypes.h"

namespace tcc {

/// Bytes of an element in memory; an i1 takes one.
inline int64_t elementBytes(mlir::Type element) {
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}
/// Bytes of a dense tensor of static shape.
inline int64_t byteSize(mlir::RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

} // namespace tcc
