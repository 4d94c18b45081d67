// Describes matmuls in the form in which the library of any target takes them.
#pragma once
#include "codegen/target.h"
#include "runtime/gemm.h"

namespace tcc {

/// The element type as the runtime names it; nothing for a type that it does not hold.
std::optional<runtime::DType> runtimeDType(mlir::Type element);

/// The matmul as the library takes it, with the operands that matmulViews gives.
runtime::GemmDesc gemmDesc(MatmulOp op, const ViewLimits &limits);
runtime::GemmDesc gemmDesc(MatmulGeluGradientOp op, const ViewLimits &limits);

/// "matmul 96 x 256x64x256 nt +bias": batch, m x n x k, which operands are transposed, and what is added.
std::string productLabel(const runtime::GemmDesc &desc);

/// The matmul as one instruction of a plan.
runtime::Instruction lowerProduct(MatmulGeluGradientOp op, const StructuredCall &call, const ViewLimits &limits);
/// Appends the op, which must be a matmul, to the plan as one instruction. Errors: it is another op, which the target
/// should have lowered itself.
runtime::Error lowerProduct(const StructuredCall &call, const TargetModel &model, runtime::Plan &plan);

} // namespace tcc
