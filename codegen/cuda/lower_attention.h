// Lowers attention and its gradient to launches of the kernels in attention/. The element type and the head dimension
// are compiled into a kernel; lengths, strides and masks are its arguments.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

/// Whether the op is attention, or its gradient, in a case that has kernels, with or without a bias. There are none for
/// f32, for head dimensions other than 32, 64, 96 and 128, for tensors without elements, and for a scale that is not
/// positive.
bool hasAttentionKernel(mlir::Operation *op);

/// The bytes that the gradient's first kernel writes for the second one: a shift and a delta for each row of scores.
int64_t attentionScratchBytes(mlir::Operation *op);

/// Says so where the architecture has faster kernels for attention, which this case cannot use: those of Hopper add no
/// bias. Otherwise, and for other ops, it is empty.
std::string attentionRemark(mlir::Operation *op, llvm::StringRef architecture);

/// Appends one launch for attention, or two for its gradient. The gradient's flops are divided among the launches by
/// the matmuls that each does; a matmul that both do is counted once. `architecture` is as for chooseAttention().
runtime::Error lowerAttention(const StructuredCall &call, llvm::StringRef architecture, runtime::Plan &plan,
                              KernelTable &kernels);

} // namespace tcc::cuda
