// LiteralRows: evaluates values that follow from coordinates and literals alone, such as masks that a graph computes by
// iota, comparisons, arithmetic and views. It works on many elements at a time and rounds as the element types do.
// LiteralBounds: between which numbers such elements lie over a range of coordinates.
#pragma once
#include "ir/dialect.h"
#include "ir/scalar_bounds.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc {

/// The directions along which the numbers of a row may change, as bits.
enum Variation : unsigned { acrossBatch = 1, acrossRows = 2, acrossColumns = 4 };

/// The elements of a row: one for each column, or one that all of them share.
struct RowNumbers {
  std::vector<double> values;
  unsigned varies = 0; // bits of Variation; a clear bit proves that nothing changes, a set bit proves nothing

  double at(size_t column) const { return values.size() == 1 ? values[0] : values[column]; }
};

class LiteralRows {
public:
  /// Whether the value follows from coordinates and literals by ops that `evaluate` knows.
  bool isLiteral(mlir::Value value);
  /// The elements of a literal value at `coordinates`, which has one entry for each dim. Gives nothing where an integer
  /// leaves the range that a double holds exactly, or where the computation is too long.
  std::optional<RowNumbers> evaluate(mlir::Value value, llvm::ArrayRef<RowNumbers> coordinates);
  /// The number that all elements of a literal value share; nothing if they differ.
  std::optional<double> uniform(mlir::Value value);
  /// Appends numbers that are equal for two literal values that the same ops compute, wherever these stand.
  void appendKey(mlir::Value value, std::vector<uint64_t> &key);

private:
  llvm::DenseMap<mlir::Value, bool> known;
  int64_t steps = 0; // of the current evaluation

  std::optional<RowNumbers> compute(mlir::Value value, llvm::ArrayRef<RowNumbers> coordinates);
  std::optional<RowNumbers> throughView(ViewOpInterface op, llvm::ArrayRef<RowNumbers> coordinates);
};

/// Says of a whole rectangle of coordinates between which numbers the elements lie, without looking at each of them.
class LiteralBounds {
public:
  /// A range that holds all elements of a literal value whose coordinates lie in `coordinates`, which has a range for
  /// each dim. Gives nothing where none was found; that says nothing about the elements.
  std::optional<NumberRange> evaluate(mlir::Value value, llvm::ArrayRef<NumberRange> coordinates);

private:
  int64_t steps = 0; // of the current evaluation

  std::optional<NumberRange> compute(mlir::Value value, llvm::ArrayRef<NumberRange> coordinates);
  std::optional<NumberRange> throughView(ViewOpInterface op, llvm::ArrayRef<NumberRange> coordinates);
};

/// index / divisor mod size, for whole numbers from 0.
NumberRange digitOf(const NumberRange &index, int64_t divisor, int64_t size);

} // namespace tcc
