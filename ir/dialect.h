// The tcc dialect in C++: op classes, interfaces, traits. Every file that handles ops includes this one.
#pragma once
#include "ir/strided_view.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tcc {
class Emit;

/// The traits that Ops.td declares and explains.
template <typename T>
class NoGradient : public mlir::OpTrait::TraitBase<T, NoGradient> {};
template <typename T>
class ViewOp : public mlir::OpTrait::TraitBase<T, ViewOp> {};
template <typename T>
class KernelBodyOp : public mlir::OpTrait::TraitBase<T, KernelBodyOp> {};
} // namespace tcc

#include "ir/Dialect.h.inc"
#include "ir/Enums.h.inc"
#include "ir/Interfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/Ops.h.inc"

namespace tcc {
/// Names of the attributes that function arguments and results carry.
inline constexpr llvm::StringLiteral nameAttr = "tcc.name";   // string: the user's name of the value
inline constexpr llvm::StringLiteral stateAttr = "tcc.state"; // unit, argument: lives across steps, updated in place
inline constexpr llvm::StringLiteral targetAttr =
    "tcc.target"; // string, module: the target that passes compiled it for
inline constexpr llvm::StringLiteral updatesAttr = "tcc.updates"; // string, result: the state whose next value this is

/// The ranked tensor type of a value of this dialect.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// "16x256xf32": shape and element type as diagnostics print them.
std::string typeText(mlir::RankedTensorType type);

/// Registers the dialects that a tcc module may hold: tcc, func, arith, math.
void registerDialects(mlir::DialectRegistry &registry);
} // namespace tcc
