// Lowers attention's ops to the instructions that run them.
#pragma once
#include "codegen/cpu/attention.h"
#include "codegen/target.h"

namespace tcc::cpu {

/// Arena bytes of the op while it runs.
int64_t attentionScratch(mlir::Operation *op, int threads, const AttentionBlocks &blocks);

/// Appends the instructions that run the op: one, and one more if parts have sums to be added. Also adds the op's
/// numbers to the plan's constants.
void lowerAttention(const StructuredCall &call, const AttentionForm &form, int threads, const AttentionBlocks &blocks,
                    runtime::Plan &plan, KernelTable &kernels);

} // namespace tcc::cpu
