#pragma once
#include <algorithm>
#include <vector>

namespace tcc::bench {

/// The value in the middle; of an even number of values the larger one of the two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

} // namespace tcc::bench
