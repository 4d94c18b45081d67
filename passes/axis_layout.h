// Axes: follows the dims of a value through transposes and reshapes, to say which dim of one value is which dim of
// another. A dim consists of one or several axes, in row-major order. All layouts of one `Axes` share the axes. A
// reshape that cuts a dim splits an axis, which then counts as split in every layout.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace tcc {

using AxisRun = llvm::SmallVector<unsigned, 2>;   // outermost first; empty for a dim of size 1
using AxisLayout = llvm::SmallVector<AxisRun, 4>; // the axes of each dim

class Axes {
public:
  /// A layout with an axis of its own for each dim.
  AxisLayout fresh(llvm::ArrayRef<int64_t> shape);
  /// The layout after a reshape to `shape`, which keeps the row-major order. Gives nothing if a dim would hold a part
  /// of an axis that no split can give (axes 2·3 as dims 3·2), or if dims of size 0 leave open which axis is which.
  std::optional<AxisLayout> reshaped(const AxisLayout &layout, llvm::ArrayRef<int64_t> shape);
  /// The run with each split axis replaced by its parts.
  AxisRun leaves(llvm::ArrayRef<unsigned> run) const;
  /// The same for all dims of a layout, in row-major order.
  AxisRun leaves(const AxisLayout &layout) const;
  int64_t size(unsigned axis) const { return axes[axis].size; }
  int64_t size(llvm::ArrayRef<unsigned> run) const;

private:
  struct Axis {
    int64_t size;
    int64_t outer = -1; // number of the outer of its two parts; the inner one is the next. -1: not split
  };
  std::vector<Axis> axes;
};

/// beforeTranspose() gives the layout of a transpose's operand from that of its result; afterTranspose() gives that of
/// the result from that of the operand.
AxisLayout beforeTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation);
AxisLayout afterTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation);

} // namespace tcc
