// Values that follow from coordinates and literals alone, such as masks: what a graph computes by iota, comparisons,
// arithmetic and views of those, evaluated a row at a time with the roundings of the element types.
#pragma once
#include "ir/dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc {

/// Along what a number may change; the numbers below carry these bits.
enum Variation : unsigned { acrossBatch = 1, acrossRows = 2, acrossColumns = 4 };

/// The elements of a row: one for each column, or one that all of them share.
struct RowNumbers {
  std::vector<double> values;
  unsigned varies = 0; // bits of Variation; a clear bit is a proof, a set one is none

  double at(size_t column) const { return values.size() == 1 ? values[0] : values[column]; }
};

class LiteralRows {
public:
  /// Whether the value follows from coordinates and literals by ops that `evaluate` knows.
  bool isLiteral(mlir::Value value);
  /// The elements of a literal value at `coordinates`, one entry a dim. Nothing where an integer leaves its type's
  /// exact range, or where the computation is too long.
  std::optional<RowNumbers> evaluate(mlir::Value value, llvm::ArrayRef<RowNumbers> coordinates);
  /// The one number that all elements of a literal value are.
  std::optional<double> uniform(mlir::Value value);
  /// Numbers that are equal for two literal values of the same computation, whoever wrote it where.
  void appendKey(mlir::Value value, std::vector<uint64_t> &key);

private:
  llvm::DenseMap<mlir::Value, bool> known;
  int64_t steps = 0; // of the current evaluation

  std::optional<RowNumbers> compute(mlir::Value value, llvm::ArrayRef<RowNumbers> coordinates);
  std::optional<RowNumbers> throughView(ViewOpInterface op, llvm::ArrayRef<RowNumbers> coordinates);
};

} // namespace tcc
