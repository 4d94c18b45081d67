// A pairwise cover: a small set of cases in which every pair of values of any two factors occurs.
#pragma once

#include <functional>
#include <vector>

namespace tcc::attention_test {

/// `sizes[i]` values for factor i; `allowed` says which cases exist. Returns cases as value numbers per factor,
/// greedily, the same every time. Pairs that no allowed case has are left out.
std::vector<std::vector<int>> pairwiseCover(const std::vector<int> &sizes,
                                            const std::function<bool(const std::vector<int> &)> &allowed);

} // namespace tcc::attention_test
