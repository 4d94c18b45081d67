// The walk over a row's columns: unrolled vectors, then single ones, then a masked tail. Which column takes which way
// depends on the number of columns alone, so that results do not depend on how items are divided.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// Columns begin..end of a row; `size` where the number is known. Only the range that ends the row may end within a
/// vector.
struct ColumnRange {
  mlir::Value begin, end;
  std::optional<int64_t> size;
};

/// body(first column, mask or null, vectors, carried values) gives the carried values' successors.
using ColumnBody =
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::Value, unsigned, mlir::ValueRange)>;

/// Walks `range` of a row of `columns` columns. Values can be carried where the range's size is known.
void forColumns(LaneBuilder &b, const ColumnRange &range, int64_t columns, unsigned unroll,
                llvm::SmallVector<mlir::Value> &carried, ColumnBody body);

} // namespace tcc::cpu
