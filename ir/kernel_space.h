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

/// Whether the op is a reduction over rows, which gives one element for each column.
bool isColumnReduction(mlir::Operation *op);
/// Whether `count` elements have their places in the space: one for each element of it, or one for each row.
inline bool hasPlaces(const KernelSpace &space, int64_t count) {
  return count == space.elements() || count == space.outer * space.rows;
}

/// What the reductions and scatters of a region demand of its iteration space. Those of two regions are demanded
/// together where the regions become one. Each function returns false if no space has it all; then `refusal` says what
/// was expected.
class DemandedSpace {
public:
  bool add(mlir::Operation *op, std::string &refusal);
  bool add(const DemandedSpace &other, std::string &refusal);
  /// Whether sums along rows and over rows agree, once all are there.
  bool agree(std::string &refusal) const;
  /// The space, nothing if no reduction dictates it.
  std::optional<KernelSpace> space() const { return columns ? columns : rows; }

private:
  std::optional<KernelSpace> columns; // of sums over rows and of scatters
  std::optional<KernelSpace> rows;    // of reductions along rows

  bool addColumns(const KernelSpace &space, std::string &refusal);
  bool addRows(const KernelSpace &space, std::string &refusal);
};

/// The spaces to try for a region of `ops` with these results, the best first. If the region has reductions, they
/// dictate the space; else there are several. Returns false if no space fits all ops; then `refusal` says what was
/// expected.
bool chooseSpaces(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> results,
                  llvm::SmallVectorImpl<KernelSpace> &candidates, std::string &refusal);

} // namespace tcc
