// Attention and its gradient as launches of the kernels in attention/: which cases those have, and what the launches
// need. The element type and the head dimension are the kernel's; lengths, strides, masks are arguments.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

/// Whether the op is attention, or its gradient, of a type, sizes and a mask that the kernels have. What they lack:
/// f32, other head dimensions than 32, 64, 96 and 128, tensors without elements, a scale that is not positive.
bool hasAttentionKernel(mlir::Operation *op);

/// What the gradient's kernels leave for each other: a shift and a delta for each row of scores.
int64_t attentionScratchBytes(mlir::Operation *op);

/// One launch forward, two backward; the gradient's flops are shared out by products, those that are done twice counted
/// once. `architecture` as in chooseAttention.
runtime::Error lowerAttention(const StructuredCall &call, llvm::StringRef architecture, runtime::Plan &plan,
                              KernelTable &kernels);

} // namespace tcc::cuda
