// Activation functions that gradients and decompositions of several families use.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// 1 / (1 + e^-x) of an f32 tensor; nothing overflows or cancels, in the gradient either.
mlir::Value sigmoid(Emit &b, mlir::Value x);

/// x, held between -bound and bound for values and gradients; NaN stays.
mlir::Value held(Emit &b, mlir::Value x, double bound);

} // namespace tcc
