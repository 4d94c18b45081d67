// printsToResults: turns each tcc.print into a result of the function, after the function's own results. Whoever runs
// the function prints these results in order. So no pass can remove, double or reorder a printed line, and no pass
// needs to know of printing.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string_view>

namespace tcc {

/// What the names of such results begin with; the runtime has the same word in runtime/printed.h.
inline constexpr std::string_view printPrefix = "tcc.print.";

/// Replaces every tcc.print by a result of the name "tcc.print.<number>.<text>", numbered from 0: if the second print
/// of a function shows "loss", it becomes "tcc.print.1.loss". A second call changes nothing.
void printsToResults(mlir::func::FuncOp function);

} // namespace tcc
