// Ops that a rewrite leaves behind.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Erases the ops of the function whose results nobody needs, and those that only they needed.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace tcc
