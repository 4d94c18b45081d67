// From a planned function to the runtime's plan: buffers, products, kernel calls, final copies.
#pragma once
#include "codegen/kernel_table.h"
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan.h"

namespace tcc {

/// The element type as the runtime names it; nothing for a type that it does not hold.
std::optional<runtime::DType> runtimeDType(mlir::Type element);

/// The product as the library takes it; operands as matmulViews gives them.
runtime::GemmDesc gemmDesc(MatmulOp op);

/// The plan of a function in phase Planned; its kernels are added to `kernels`. An error is a limit of the runtime.
std::optional<runtime::Plan> lowerPlan(mlir::func::FuncOp function, int threads, KernelTable &kernels,
                                       std::string &error);

} // namespace tcc
