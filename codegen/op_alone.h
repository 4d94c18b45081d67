// One op of a planned function by itself: for checks of what was made of it.
#pragma once
#include "codegen/compile_session.h"
#include "codegen/graph_runner.h"
#include "mlir/IR/OwningOpRef.h"

namespace tcc {

/// What the passes wrote on the op, which is no part of it, goes.
void forgetPlan(mlir::Operation *op);

/// A function of the op's operands that gives its results.
mlir::OwningOpRef<mlir::func::FuncOp> functionAround(mlir::Operation *op);

/// The function compiled as it stands, op by op, for a device; null: a CPU. `function` must outlive the runner.
runtime::Expected<std::unique_ptr<GraphRunner>> runnerOf(mlir::func::FuncOp function, const CompileOptions &options,
                                                         const std::shared_ptr<runtime::Device> &device);

} // namespace tcc
