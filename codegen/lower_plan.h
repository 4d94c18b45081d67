// lowerPlan: makes the runtime's plan of a planned function: buffers, kernel calls, final copies. The target lowers
// structured ops.
#pragma once
#include "codegen/kernel_table.h"
#include "codegen/target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan.h"

namespace tcc {

/// The plan of a function in phase planned. Its kernels are added to `kernels`, which must be empty. Errors: a limit of
/// the runtime is exceeded; the target does not have an op.
runtime::Expected<runtime::Plan> lowerPlan(mlir::func::FuncOp function, const Target &target, int threads,
                                           KernelTable &kernels);

/// The number of a kernel that a target has written for a structured op (Target::lower). The first call adds it to the
/// plan. `arguments` is the number of arguments that a launch passes.
uint32_t addKernel(runtime::Plan &plan, KernelTable &kernels, TextKernel kernel, uint32_t arguments,
                   std::string description);

/// The buffer of a constant with these bytes, which equal calls share.
runtime::BufferId constantOf(std::string bytes, runtime::Plan &plan);

} // namespace tcc
