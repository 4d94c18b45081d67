// Tensors of doubles as the bytes that compiled code reads and writes.
#pragma once
#include "ir/reference/interpreter.h"

namespace tcc {

/// Bytes of a dense tensor; i1 takes one an element.
int64_t tensorBytes(mlir::RankedTensorType type);
/// Writes every element, rounded to the element type.
void writeBytes(const RefTensor &tensor, void *to);
RefTensor readBytes(mlir::RankedTensorType type, const void *from);

} // namespace tcc
