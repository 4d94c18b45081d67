// What gradients and decompositions of several families use.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// x, held between -bound and bound for values and gradients; NaN stays.
mlir::Value held(Emit &b, mlir::Value x, double bound);

} // namespace tcc
