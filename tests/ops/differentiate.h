// An independent, small reverse sweep: what the tests hold against finite differences and against the autodiff pass.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc::test {

/// Replaces every composite by its decomposition, until there is none.
void decomposeAll(mlir::func::FuncOp function);

/// Turns `function`, of primitives alone and one block, from (x...) -> (y...) into (x..., dy...) -> (dx...): one `dy`
/// for each y of a float type, one `dx` for each x of a float type, zeros where no gradient flows.
void differentiate(mlir::func::FuncOp function);

/// Replaces each tcc.gradient of the function by what it stands for.
void expandGradients(mlir::func::FuncOp function);

} // namespace tcc::test
