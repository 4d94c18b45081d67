#include "runtime/handed_tensors.h"
#include <algorithm>

namespace tcc::runtime {

Expected<int64_t> checkOverlap(std::vector<HandedRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const HandedRange &a, const HandedRange &b) { return a.begin < b.begin; });
  // Among the ranges so far: the one that reaches furthest, and the written one that does.
  const HandedRange *furthest = nullptr, *furthestWritten = nullptr;
  int64_t foreign = 0;
  const char *covered = nullptr; // end of what has been looked at, so that inputs given twice count once
  for (const HandedRange &range : ranges) {
    const HandedRange *other = range.written ? furthest : furthestWritten;
    if (other && other->end > range.begin)
      return Error("`" + other->spec->name + "` and `" + range.spec->name +
                   "` overlap in memory; outputs and states have memory of their own");
    if (!furthest || range.end > furthest->end)
      furthest = &range;
    if (range.written && (!furthestWritten || range.end > furthestWritten->end))
      furthestWritten = &range;
    const char *begin = std::max(range.begin, covered);
    if (begin < range.end && !isCounted(range.begin))
      foreign += range.end - begin;
    covered = std::max(covered, range.end);
  }
  return foreign;
}

} // namespace tcc::runtime
