// forColumns: the loops over a row's columns: unrolled vectors, then single vectors, then a masked tail. In which loop
// a column is computed depends on the number of columns alone, so that results do not depend on how items are divided.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// Columns begin..end of a row; `size` is their number, if it is known. Only the last range of a row may end within a
/// vector.
struct ColumnRange {
  mlir::Value begin, end;
  std::optional<int64_t> size;
};

/// body(first column, mask or null, number of vectors, carried values) gives the next carried values.
using ColumnBody =
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::Value, unsigned, mlir::ValueRange)>;

/// Emits the loops over `range` of a row of `columns` columns. Values can be carried only if the range's size is known.
void forColumns(LaneBuilder &b, const ColumnRange &range, int64_t columns, unsigned unroll,
                llvm::SmallVector<mlir::Value> &carried, ColumnBody body);

} // namespace tcc::cpu
