// The iteration space of a fused region, and what its reductions say about it.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"

namespace tcc {

bool isReduction(mlir::Operation *op); // reduce_sum or reduce_max
llvm::ArrayRef<int64_t> reducedAxes(mlir::Operation *reduction);

/// A reduction's operand shape as before × reduced × after, where the reduced dims of more than one element are
/// neighbours among such dims.
struct ReductionShape {
  int64_t before = 1, reduced = 1, after = 1;
  bool adjacent = true;
  bool isIdentity() const { return reduced == 1; }
  bool isTrailing() const { return after == 1; }
};

ReductionShape reductionShape(mlir::Operation *reduction);

/// The spaces to try for a region of `ops` with these results, best first: its reductions dictate the space; without
/// one there are several. False and in `refusal` what was expected where no space fits them all.
bool chooseSpaces(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> results,
                  llvm::SmallVectorImpl<KernelSpace> &candidates, std::string &refusal);

} // namespace tcc
