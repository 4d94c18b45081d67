// How far two runs of a graph are from each other.
#pragma once
#include "ir/reference/interpreter.h"
#include <cmath>
#include <limits>

namespace tcc::test {

/// The largest difference of a result, relative to its largest element; infinite where types, NaN or infinity differ.
inline double difference(llvm::ArrayRef<RefTensor> a, llvm::ArrayRef<RefTensor> b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double most = a.size() == b.size() ? 0 : infinity;
  for (auto [x, y] : llvm::zip(a, b)) {
    if (x.type != y.type)
      return infinity;
    double scale = 1e-3, error = 0;
    for (auto [one, other] : llvm::zip_equal(x.data, y.data)) {
      if (one == other || (std::isnan(one) && std::isnan(other)))
        continue;
      if (!std::isfinite(one - other))
        return infinity;
      scale = std::max(scale, std::abs(one));
      error = std::max(error, std::abs(one - other));
    }
    most = std::max(most, error / scale);
  }
  return most;
}

} // namespace tcc::test
