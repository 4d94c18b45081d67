// RankParts: the parts of a value that the ranks have. If dim 0 has n rows, rank r of N has the rows from r · n / N
// (rounded down) up to the first row of the next rank.
#pragma once
#include "ir/emit.h"
#include "passes/pass_flags.h"

namespace tcc {

class RankParts {
public:
  explicit RankParts(const RankShare &ranks) : ranks(ranks) {}

  /// Whether a value of this type can be cut so that each rank has at least one row.
  bool areOf(mlir::RankedTensorType whole) const { return whole.getRank() > 0 && whole.getDimSize(0) >= ranks.count; }
  int64_t firstRow(mlir::RankedTensorType whole, int64_t rank) const;
  /// This rank's first row.
  int64_t firstRow(mlir::RankedTensorType whole) const { return firstRow(whole, ranks.rank); }
  mlir::RankedTensorType typeOf(mlir::RankedTensorType whole) const {
    return withRows(whole, rowsOf(whole, ranks.rank));
  }
  /// The type of the largest part.
  mlir::RankedTensorType largest(mlir::RankedTensorType whole) const;

  /// This rank's rows of a whole value.
  mlir::Value cut(Emit &b, mlir::Value whole) const;
  /// The parts of all ranks as [ranks, elements of the largest part]. Smaller parts are filled up with zeros.
  mlir::Value cutForAll(Emit &b, mlir::Value whole) const;
  /// The whole values with the types `wholes`, of which `parts` are this rank's parts, by one tcc.all_gather. All parts
  /// must have the same element type.
  llvm::SmallVector<mlir::Value> gather(Emit &b, mlir::ValueRange parts,
                                        llvm::ArrayRef<mlir::RankedTensorType> wholes) const;
  /// gather() in two steps. gatherParts() gives the parts of all ranks as [ranks, size]; wholesOf() makes the whole
  /// values of them.
  mlir::Value gatherParts(Emit &b, mlir::ValueRange parts, llvm::ArrayRef<mlir::RankedTensorType> wholes) const;
  llvm::SmallVector<mlir::Value> wholesOf(Emit &b, mlir::Value all,
                                          llvm::ArrayRef<mlir::RankedTensorType> wholes) const;
  /// The values [size] of all ranks, as [ranks, size].
  mlir::Value gatherFlat(Emit &b, mlir::Value own) const;

  /// Any number of values as one, by tcc.concat. A kernel has few operands, so many values are joined in several steps.
  static mlir::Value joinedOf(Emit &b, mlir::ValueRange values, int64_t axis);
  /// The elements of several values one after another, as one value of rank 1. The values have one element type.
  static mlir::Value flat(Emit &b, mlir::ValueRange values);
  /// The type with `rows` as the size of dim 0.
  static mlir::RankedTensorType withRows(mlir::RankedTensorType type, int64_t rows);

private:
  const RankShare &ranks;

  int64_t rowsOf(mlir::RankedTensorType whole, int64_t rank) const {
    return firstRow(whole, rank + 1) - firstRow(whole, rank);
  }
  mlir::Value joined(Emit &b, mlir::Value parts, mlir::RankedTensorType whole) const;
};

} // namespace tcc
