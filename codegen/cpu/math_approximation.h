// Transcendental functions of f32 scalars and vectors as arithmetic, so that nothing calls a math library.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// Replaces math.exp, exp2, log, tanh, sin, cos, erf, expm1, log1p and powf and arith.remf below `root`; also floor,
/// ceil, roundeven and trunc if the target has no instruction for them. The errors in units in the last place, for all
/// arguments unless said otherwise, are: exp 1.5, exp2 5 (for -126 to 126, exact for whole numbers, undefined beyond),
/// log 1.5, tanh 3, erf 2, sin and cos 1.6, expm1 2, log1p 2, powf 1.5; the others are exact. Infinities, NaN,
/// denormals and overflow give what IEEE arithmetic would. A result's bits depend only on the argument and on the
/// target's instruction set. Call it after addFastMathFlags(), since the expansions must not get these flags.
void expandMath(mlir::Operation *root, const VectorTarget &target);

/// An attribute of a math.exp whose argument is NaN or between -87 and 88: its result is a normal number, which costs a
/// third less. Its bits are those of any other math.exp.
constexpr llvm::StringLiteral isNormalExpAttr = "tcc.normal";
/// An attribute of a math.exp whose argument is NaN or at most 0: where no instruction scales by 2^n, that costs a
/// quarter less. Its bits are those of any other math.exp.
constexpr llvm::StringLiteral isAtMostOneExpAttr = "tcc.at_most_one";

/// sigmoid(x) of f32, a scalar or a vector, with an error of at most 3 units in the last place; a denormal result may
/// be wrong by one of its units more.
mlir::Value sigmoid(LaneBuilder &b, mlir::Value x);
/// sigmoid(x), as above, and sigmoid(-x), which is never taken to be below 2^-64.
std::pair<mlir::Value, mlir::Value> sigmoids(LaneBuilder &b, mlir::Value x);

/// What stands for functions where values need no more than about 16 bits (ir/kernel_precision.h). Each is wrong by at
/// most 2^-21 + |x| · 2^-23 of itself. The target must have scaling, and x be a whole vector of f32.
mlir::Value nearExp(LaneBuilder &b, mlir::Value x);
/// sigmoid(x), or of -x if `isMirrored`.
mlir::Value nearSigmoid(LaneBuilder &b, mlir::Value x, bool isMirrored);
/// sigmoid(x) and sigmoid(-x), with one division. Where the smaller one is below 2^-126, it is wrong by at most that.
std::pair<mlir::Value, mlir::Value> nearSigmoids(LaneBuilder &b, mlir::Value x);

/// Adds to the fast-math flags of every floating-point op below `root`, but for those of the sigmoids above.
void addFastMathFlags(mlir::Operation *root, mlir::arith::FastMathFlags flags);

} // namespace tcc::cpu
