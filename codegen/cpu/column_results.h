// ColumnResults: results to which all rows of an outer block contribute: column sums, column maxima and scatter_add.
// They are set to their start value, accumulated in the result's own memory (16-bit sums in f32 beside it), and
// finished.
#pragma once
#include "codegen/cpu/column_loop.h"
#include "codegen/cpu/node_values.h"

namespace tcc::cpu {

class ColumnResults {
public:
  /// `tile`: columns of an item.
  ColumnResults(LaneBuilder &b, const KernelInfo &info, NodeValues &values, mlir::ValueRange results,
                llvm::ArrayRef<mlir::Type> elements, int64_t tile)
      : b(b), info(info), values(values), results(results), elements(elements), tile(tile) {}

  /// Reserves memory. Must be called at the start of the function.
  void prepare();
  void start(const RowScope &block, const ColumnRange &range);
  /// Adds a row's columns to result number `store`.
  void accumulate(unsigned store, LaneScope &lanes);
  void finish(const RowScope &block, const ColumnRange &range);

private:
  LaneBuilder &b;
  const KernelInfo &info;
  NodeValues &values;
  llvm::SmallVector<mlir::Value> results; // pointers
  llvm::SmallVector<mlir::Type> elements; // element types of the results
  int64_t tile;
  std::map<unsigned, mlir::Value> wideSums; // f32 sums and products of 16-bit results, one tile long

  mlir::Type accumulatorElement(unsigned store);
  mlir::Value accumulatorAddress(unsigned store, const RowScope &row, mlir::Value column);
  void scatter(unsigned store, LaneScope &lanes);
  void copyScatterBase(unsigned store, const ColumnRange &range);
};

/// The start value of a reduction of values of this type, and one step of the reduction.
mlir::Value reductionStart(LaneBuilder &b, Reduction reduction, mlir::Type type);
mlir::Value reductionStep(LaneBuilder &b, Reduction reduction, mlir::Value sum, mlir::Value value);

} // namespace tcc::cpu
