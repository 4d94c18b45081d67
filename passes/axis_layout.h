// Axes: follows the dims of a value through transposes and reshapes, to say which dim of one value is which dim of
// another. A dim is a row-major run of axes; all layouts of one `Axes` share these. A reshape that cuts a dim splits
// its axis, in every layout at once.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace tcc {

using AxisRun = llvm::SmallVector<unsigned, 2>;   // outermost first; empty for a dim of size 1
using AxisLayout = llvm::SmallVector<AxisRun, 4>; // of each dim

class Axes {
public:
  /// A layout with an axis of its own for each dim.
  AxisLayout fresh(llvm::ArrayRef<int64_t> shape);
  /// The layout of the same elements, in row-major order, under `shape`; nothing where a dim would hold a part of an
  /// axis that no split can give, as for 6 = 2·3 under 3·2, or where dims of size 0 leave open which is which.
  std::optional<AxisLayout> reshaped(const AxisLayout &layout, llvm::ArrayRef<int64_t> shape);
  /// The unsplit axes that a run stands for now.
  AxisRun leaves(llvm::ArrayRef<unsigned> run) const;
  /// Those of all dims, in row-major order.
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

/// The layout of a transpose's operand from that of its result, and the other way round.
AxisLayout beforeTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation);
AxisLayout afterTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation);

} // namespace tcc
