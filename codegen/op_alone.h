// Compiles one op of a planned function alone, so that a check can run it.
#pragma once
#include "codegen/compile_session.h"
#include "codegen/graph_runner.h"
#include "mlir/IR/OwningOpRef.h"

namespace tcc {

/// Removes what the planner and the scheduler have written on the op: places, scratch, stage.
void forgetPlan(mlir::Operation *op);

/// A function that takes the op's operands and returns its results.
mlir::OwningOpRef<mlir::func::FuncOp> functionAround(mlir::Operation *op);

/// Compiles the function as it stands, op by op, for a device (null: the CPU). `function` must outlive the runner.
runtime::Expected<std::unique_ptr<GraphRunner>> runnerOf(mlir::func::FuncOp function, const CompileOptions &options,
                                                         const std::shared_ptr<runtime::Device> &device);

} // namespace tcc
