// Stages: the order of a function whose first results the host looks at before the rest is computed. First come the ops
// that the first asked result needs, then those that the second one needs, and so on; no state is written before the
// last asked result is there. Custom ops, which may fail, and what they need are one more stage after these, so that a
// failure leaves every state as it was.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace tcc {

/// On a function, an i64: how many of its first results the host asks for, in their order.
inline constexpr llvm::StringLiteral askedAttr = "tcc.asked";
/// On a function, a unit attribute: each value has the same bits as in any other function that computes it by the same
/// ops, so no pass may move a sum. A function that has askedAttr and not this one promises it only for what the asked
/// results need.
inline constexpr llvm::StringLiteral steadyAttr = "tcc.steady";
/// On an op of a scheduled function, an i64: the number of the first asked result that needs the op; for ops that only
/// custom ops need, the number after the last asked result. Ops that no stage needs have no such attribute.
inline constexpr llvm::StringLiteral stageAttr = "tcc.stage";

/// Moves the ops into stages, keeping their order within a stage, and numbers them. Changes nothing in a function that
/// the host asks for no result and that has no custom op.
void orderStages(mlir::func::FuncOp function);

/// The ops whose values must have the same bits in other functions too.
llvm::DenseSet<mlir::Operation *> steadyOps(mlir::func::FuncOp function);

/// The stage of an op; nothing where no stage needs it.
std::optional<int64_t> stageOf(mlir::Operation *op);

} // namespace tcc
