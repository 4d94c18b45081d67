// Converts the interpreter's tensors of doubles to the bytes that compiled code reads and writes, and back.
#pragma once
#include "ir/reference/interpreter.h"

namespace tcc {

/// Writes every element, rounded to the element type.
void writeBytes(const RefTensor &tensor, void *to);
RefTensor readBytes(mlir::RankedTensorType type, const void *from);

} // namespace tcc
