// tcc.print: what is printed leaves a function as results, behind its own, which whoever runs it prints in their order.
// So no pass can remove, double or reorder a line, and none needs to know of them.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string_view>

namespace tcc {

/// What the names of such results begin with; the runtime's word for it (runtime/printed.h).
inline constexpr std::string_view printPrefix = "tcc.print.";

/// Replaces every tcc.print by a result: the second one of "loss" is "tcc.print.1.loss". Does nothing the second time.
void printsToResults(mlir::func::FuncOp function);

} // namespace tcc
