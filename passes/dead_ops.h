// eraseDeadOps: removes ops that nobody needs after a rewrite.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Erases the ops of the function whose results nobody reads, and then those that only these had read.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace tcc
