// Reduction of a failing graph: the smallest module found on which the same check still fails.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <functional>

namespace tcc::test {

/// `fails` must hold for `module`. In turn, until nothing helps: results are dropped, ops are replaced by an operand,
/// by a new argument or by zeros, and sizes are made smaller. Every candidate is valid IR. At most `tries` calls of
/// `fails`.
mlir::OwningOpRef<mlir::ModuleOp> reduceGraph(mlir::ModuleOp module, const std::function<bool(mlir::ModuleOp)> &fails,
                                              int tries = 300);

/// Ops of the one function without its return; literals do not count.
int64_t countOps(mlir::ModuleOp module);

} // namespace tcc::test
