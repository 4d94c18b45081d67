// Transcendental functions of f32 scalars and vectors as arithmetic, so that nothing calls a math library.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// Replaces math.exp, exp2, log, tanh, sin, cos and erf below `root`. Errors in units in the last place, all arguments
/// unless said otherwise: exp 1.5, exp2 5 (of -126 to 126, whole numbers exactly; beyond it is undefined), log 1.5,
/// tanh 3, erf 2, sin and cos 1.6. Infinities, NaN, denormals and overflow give what IEEE arithmetic would. After
/// setFastMathFlags: the expansions have flags of their own.
void expandMath(mlir::Operation *root, const VectorTarget &target);

/// Adds to the fast-math flags of every floating-point op below `root`: contraction to FMA, and with `fastMath`
/// reassociation too.
void setFastMathFlags(mlir::Operation *root, bool fastMath);

} // namespace tcc::cpu
