// From a planned function to the runtime's plan: buffers, kernel calls, final copies; structured ops by the target.
#pragma once
#include "codegen/kernel_table.h"
#include "codegen/target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan.h"

namespace tcc {

/// The plan of a function in phase Planned; its kernels are added to `kernels`. An error is a limit of the runtime, or
/// an op that the target does not have.
std::optional<runtime::Plan> lowerPlan(mlir::func::FuncOp function, const Target &target, int threads,
                                       KernelTable &kernels, std::string &error);

} // namespace tcc
