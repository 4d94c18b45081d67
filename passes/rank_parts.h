// RankParts: the parts of a value that ranks have. Of n rows of dim 0, rank r of N has those from r · n / N on, rounded
// down, to where the next rank's begin.
#pragma once
#include "ir/emit.h"
#include "passes/pass_flags.h"

namespace tcc {

class RankParts {
public:
  explicit RankParts(const RankShare &ranks) : ranks(ranks) {}

  /// Whether each rank has a row or more.
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
  /// All ranks' rows, each filled up with zeros to the largest part, as [ranks, elements of that].
  mlir::Value cutForAll(Emit &b, mlir::Value whole) const;
  /// The wholes of these types, whose parts this rank gives: one tcc.all_gather. Parts have one element type.
  llvm::SmallVector<mlir::Value> gather(Emit &b, mlir::ValueRange parts,
                                        llvm::ArrayRef<mlir::RankedTensorType> wholes) const;
  /// The values [size] of all ranks, as [ranks, size].
  mlir::Value gatherFlat(Emit &b, mlir::Value own) const;

  /// The elements of several values of one element type in a row.
  static mlir::Value flat(Emit &b, mlir::ValueRange values);
  static mlir::RankedTensorType withRows(mlir::RankedTensorType type, int64_t rows);

private:
  const RankShare &ranks;

  int64_t rowsOf(mlir::RankedTensorType whole, int64_t rank) const {
    return firstRow(whole, rank + 1) - firstRow(whole, rank);
  }
  mlir::Value joined(Emit &b, mlir::Value parts, mlir::RankedTensorType whole) const;
};

} // namespace tcc
