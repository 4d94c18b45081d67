// The remarks of a whole compilation: what instructions cost, and those that say the same joined.
#pragma once
#include "passes/remarks.h"
#include "runtime/plan.h"

namespace tcc {

/// Adds an analysis remark of "cost" for each instruction: its arithmetic and traffic, and what bounds it on this
/// machine (runtime/machine_limits.h), whose limits are measured where they are not known yet.
void addCostRemarks(const runtime::Plan &plan, mlir::MLIRContext &context, Remarks &remarks);

/// Remarks that say the same of one place, but for the numbers of layers, as one ("h.*.mlp.gelu"), their bytes and
/// counts added up; most bytes first, else in their order.
Remarks joined(const Remarks &remarks);

} // namespace tcc
