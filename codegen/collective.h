// Collectives as instructions of a plan.
#pragma once
#include "codegen/target.h"

namespace tcc {

/// The arena bytes that the collective needs while it runs. An all_to_all gathers there what it sends: the rank's only
/// piece, or the parts of its pieces that other ranks get.
int64_t collectiveScratch(mlir::Operation *op);

/// Appends the instruction of the collective.
void lowerCollective(const StructuredCall &call, runtime::Plan &plan);

} // namespace tcc
