// tcc.print: what is printed leaves a function as results, behind its own, which whoever runs it prints in their order.
// So no pass can remove, double or reorder a line, and none needs to know of them.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

/// Replaces every tcc.print by a result that is named runtime::printedName. Does nothing the second time.
void printsToResults(mlir::func::FuncOp function);

} // namespace tcc
