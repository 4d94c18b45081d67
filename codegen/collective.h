// Collectives as instructions of a plan.
#pragma once
#include "codegen/target.h"

namespace tcc {

/// Arena bytes that the collective needs while it runs: what an all_to_all sends.
int64_t collectiveScratch(mlir::Operation *op);

/// Appends the instruction of the collective.
void lowerCollective(const StructuredCall &call, runtime::Plan &plan);

} // namespace tcc
