// Axes that split when a reshape cuts them.
#include "passes/axis_layout.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc {

AxisLayout Axes::fresh(llvm::ArrayRef<int64_t> shape) {
  AxisLayout layout;
  for (int64_t size : shape) {
    layout.emplace_back();
    if (size == 1)
      continue;
    layout.back().push_back(axes.size());
    axes.push_back({size});
  }
  return layout;
}

AxisRun Axes::leaves(llvm::ArrayRef<unsigned> run) const {
  AxisRun result;
  llvm::SmallVector<unsigned> work(llvm::reverse(run));
  while (!work.empty()) {
    unsigned axis = work.pop_back_val();
    if (axes[axis].outer < 0) {
      result.push_back(axis);
      continue;
    }
    work.push_back(axes[axis].outer + 1);
    work.push_back(axes[axis].outer);
  }
  return result;
}

AxisRun Axes::leaves(const AxisLayout &layout) const {
  AxisRun all;
  for (const AxisRun &run : layout)
    all.append(leaves(run));
  return all;
}

int64_t Axes::size(llvm::ArrayRef<unsigned> run) const {
  int64_t product = 1;
  for (unsigned axis : run)
    product *= axes[axis].size;
  return product;
}

std::optional<AxisLayout> Axes::reshaped(const AxisLayout &layout, llvm::ArrayRef<int64_t> shape) {
  AxisRun rest = leaves(layout);
  std::reverse(rest.begin(), rest.end()); // the next one last
  AxisLayout result;
  for (int64_t size : shape) {
    AxisRun &run = result.emplace_back();
    for (int64_t missing = size; missing != 1;) {
      if (rest.empty())
        return std::nullopt;
      unsigned axis = rest.pop_back_val();
      int64_t have = axes[axis].size;
      if (missing == have) {
        run.push_back(axis);
        missing = 1;
      } else if (missing == 0 || have == 0) { // tensors without elements: no size follows from the others
        return std::nullopt;
      } else if (missing % have == 0) {
        run.push_back(axis);
        missing /= have;
      } else if (have % missing == 0) {
        axes[axis].outer = static_cast<int64_t>(axes.size());
        rest.push_back(axes.size() + 1);
        run.push_back(axes.size());
        axes.insert(axes.end(), {Axis{missing}, Axis{have / missing}});
        missing = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  if (!rest.empty())
    return std::nullopt;
  return result;
}

AxisLayout beforeTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation) {
  AxisLayout result(layout.size());
  for (auto [i, dim] : llvm::enumerate(permutation))
    result[dim] = layout[i];
  return result;
}

AxisLayout afterTranspose(const AxisLayout &layout, llvm::ArrayRef<int64_t> permutation) {
  AxisLayout result;
  for (int64_t dim : permutation)
    result.push_back(layout[dim]);
  return result;
}

} // namespace tcc
