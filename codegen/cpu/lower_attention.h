// From attention's ops to the instructions that they run as.
#pragma once
#include "codegen/cpu/attention.h"
#include "codegen/target.h"

namespace tcc::cpu {

/// Arena bytes of the op while it runs.
int64_t attentionScratch(mlir::Operation *op, int threads, const AttentionBlocks &blocks);

/// The instructions that the op runs as (one, and one more for the sums of parts), and its numbers among the plan's
/// constants.
void lowerAttention(const StructuredCall &call, const AttentionForm &form, int threads, const AttentionBlocks &blocks,
                    runtime::Plan &plan, KernelTable &kernels);

} // namespace tcc::cpu
