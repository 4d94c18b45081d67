// chooseSpaces: finds the iteration spaces that a fused region can have, which depend on its reductions.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"

namespace tcc {

bool isReduction(mlir::Operation *op); // reduce_sum, reduce_max or reduce_prod
Reduction reductionOf(mlir::Operation *reduction);
llvm::ArrayRef<int64_t> reducedAxes(mlir::Operation *reduction);

/// The shape of a reduction's operand as before × reduced × after. This needs reduced dims that are neighbours; dims of
/// size 1 between them do not count.
struct ReductionShape {
  int64_t before = 1, reduced = 1, after = 1;
  bool adjacent = true;
  bool isIdentity() const { return reduced == 1; }
  bool isTrailing() const { return after == 1; }
};

ReductionShape reductionShape(mlir::Operation *reduction);

/// The spaces to try for a region of `ops` with these results, the best first. If the region has reductions, they
/// dictate the space; else there are several. Returns false if no space fits all ops; then `refusal` says what was
/// expected.
bool chooseSpaces(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> results,
                  llvm::SmallVectorImpl<KernelSpace> &candidates, std::string &refusal);

} // namespace tcc
