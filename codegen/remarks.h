// The remarks of a whole compilation: adds what instructions cost, and joins remarks that say the same.
#pragma once
#include "codegen/tuning.h"
#include "passes/remarks.h"
#include "runtime/plan.h"

namespace tcc {

/// Adds an analysis remark of "cost" for each instruction: its arithmetic and traffic, and what bounds it on this
/// machine (runtime/machine_limits.h), whose limits are measured where they are not known yet.
void addCostRemarks(const runtime::Plan &plan, mlir::MLIRContext &context, Remarks &remarks);

/// Adds a passed remark of "keep-packed" for each matmul that packs its right operand for others (packed_operands.h).
/// Its bytes are those that the others would have read and written to pack it again.
void addPackingRemarks(const runtime::Plan &plan, mlir::MLIRContext &context, Remarks &remarks);

/// Adds a passed remark of "tuning" for each call of a kernel that -O3 compiles otherwise than by default.
void addTuningRemarks(const TuningReport &report, const runtime::Plan &plan, mlir::MLIRContext &context,
                      Remarks &remarks);

/// Joins remarks about one place that differ only in the numbers of layers ("h.*.mlp.gelu"), and adds up their bytes
/// and counts. The remark with most bytes comes first; equal ones keep their order.
Remarks joined(const Remarks &remarks);

} // namespace tcc
