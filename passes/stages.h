// Stages: a function whose first results the host looks at before the rest is computed. What the first of them needs
// comes first, then what the second needs, …; no state is written before the last of them is there. Custom ops, which
// may fail, and what they need are a stage behind these, so that a failure leaves every state as it was.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace tcc {

/// On a function: i64, how many of its first results the host asks for, in their order.
inline constexpr llvm::StringLiteral askedAttr = "tcc.asked";
/// On a function: unit, its values have the bits that any other function gives them which computes them by the same
/// ops, from however many of its own steps: sums are not moved. Of a function with askedAttr that holds for what the
/// asked results need alone.
inline constexpr llvm::StringLiteral steadyAttr = "tcc.steady";
/// On an op of a scheduled function: i64, the first asked result that needs it, or the number behind these for what
/// custom ops need; none behind the last.
inline constexpr llvm::StringLiteral stageAttr = "tcc.stage";

/// Moves the ops into stages, each in its order, and numbers them. Nothing for a function that the host does not ask
/// and that has no custom op.
void orderStages(mlir::func::FuncOp function);

/// The ops whose values must have the same bits in other functions too.
llvm::DenseSet<mlir::Operation *> steadyOps(mlir::func::FuncOp function);

/// The stage of an op; nothing where the host waits for no result of it.
std::optional<int64_t> stageOf(mlir::Operation *op);

} // namespace tcc
