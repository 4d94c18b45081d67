// The order in which all ranks start collectives. With --zero the programs of ranks differ, and so does where passes
// put their ops. distribute, which writes collectives in the same order on all ranks, numbers them as tcc.order;
// schedule puts them in that order again, and schedule-collectives keeps it.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

inline constexpr llvm::StringLiteral orderAttr = "tcc.order"; // on collectives: i64, from 1 on

/// On collectives that gather parameters (--zero=3): i64, the window of parameters to which they belong.
/// schedule-collectives starts those of a window no earlier than the window before it is read, so that few are in
/// memory.
inline constexpr llvm::StringLiteral parameterAttr = "tcc.parameter";

/// Whether the op is a collective in which several ranks exchange bytes. An op with bodies is none, whatever they hold.
bool isExchange(mlir::Operation *op);

/// Numbers the exchanges of a function, bodies included, in the order in which they stand.
void numberCollectives(mlir::func::FuncOp function);

/// The op's number; of an op with bodies, the first of those in them. Nothing where there is none.
std::optional<int64_t> placeInOrder(mlir::Operation *op);

/// Ops of the block that have a place, in the order of their places.
llvm::SmallVector<mlir::Operation *> inOrder(mlir::Block &block);

/// Moves the op to after `place`, with all that it is computed from and that stands later; gives the op. Joined kernels
/// that move together stay joined, under numbers that no other group of the block has.
mlir::Operation *moveAfter(mlir::Operation *op, mlir::Operation *place);

/// Puts the block's exchanges in the order of their numbers: one that stands too late moves up, with what it is
/// computed from.
void orderCollectives(mlir::Block &block);

} // namespace tcc
