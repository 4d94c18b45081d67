// Greedy: of all allowed cases take the one with most pairs not yet seen, until none has any.
#include "cover.h"

#include <set>
#include <tuple>

namespace tcc::attention_test {

namespace {

using Pair = std::tuple<int, int, int, int>; // Factor, value, factor, value.

std::vector<Pair> pairsOf(const std::vector<int> &values) {
  std::vector<Pair> pairs;
  for (int a = 0; a < int(values.size()); ++a)
    for (int b = a + 1; b < int(values.size()); ++b)
      pairs.emplace_back(a, values[a], b, values[b]);
  return pairs;
}

void enumerate(const std::vector<int> &sizes, std::vector<int> &prefix,
               const std::function<bool(const std::vector<int> &)> &allowed, std::vector<std::vector<int>> &out) {
  if (prefix.size() == sizes.size()) {
    if (allowed(prefix))
      out.push_back(prefix);
    return;
  }
  for (int value = 0; value < sizes[prefix.size()]; ++value) {
    prefix.push_back(value);
    enumerate(sizes, prefix, allowed, out);
    prefix.pop_back();
  }
}

} // namespace

std::vector<std::vector<int>> pairwiseCover(const std::vector<int> &sizes,
                                            const std::function<bool(const std::vector<int> &)> &allowed) {
  std::vector<std::vector<int>> all;
  std::vector<int> prefix;
  enumerate(sizes, prefix, allowed, all);
  std::set<Pair> missing;
  for (const auto &values : all)
    for (const Pair &pair : pairsOf(values))
      missing.insert(pair);
  std::vector<std::vector<int>> cover;
  while (!missing.empty()) {
    const std::vector<int> *best = nullptr;
    int bestGain = 0;
    for (const auto &values : all) {
      int gain = 0;
      for (const Pair &pair : pairsOf(values))
        gain += int(missing.count(pair));
      if (gain > bestGain) {
        bestGain = gain;
        best = &values;
      }
    }
    cover.push_back(*best);
    for (const Pair &pair : pairsOf(*best))
      missing.erase(pair);
  }
  return cover;
}

} // namespace tcc::attention_test
