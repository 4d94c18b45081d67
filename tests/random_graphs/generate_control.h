// Branches and loops in a random graph: some of its ops move into bodies.
#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace tcc::test {

/// Puts up to three ranges of ops of @main, one perhaps inside of another, into a tcc.cond with a predicate of its own
/// (an argument of i1) or a tcc.repeat of one to four turns. The same for the same seed everywhere.
void outlineControl(mlir::ModuleOp module, uint64_t seed);

} // namespace tcc::test
