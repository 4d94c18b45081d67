#include "passes/zero_stages.h"
#include "ir/lanes.h"

namespace tcc {

std::string lanesRefusal(int zero, int64_t lanes, int64_t ranks) {
  const std::string given = std::to_string(lanes) + " lanes for " + std::to_string(ranks) + " ranks; ";
  if (lanes < ranks)
    return given + "each rank needs one or more";
  const int64_t alike = alikeLanes(lanes, ranks);
  if (zero < 3 || ranks == 1 || lanes == alike)
    return {};
  return given + "with --zero=3 each rank computes 1, 2, 4, 8, … of them, all ranks equally many, as of " +
         std::to_string(alike) + " lanes";
}

std::string deviceRefusal(int zero, bool sharesHostMemory) {
  if (zero < 3 || sharesHostMemory)
    return {};
  return "--zero=3 works on CPUs alone; on devices with memory of their own, such as GPUs, --zero is 0, 1 or 2";
}

int lastStage(int64_t lanes, int64_t ranks, bool sharesHostMemory) {
  int stage = mostZero;
  while (stage > 0 && !(lanesRefusal(stage, lanes, ranks).empty() && deviceRefusal(stage, sharesHostMemory).empty()))
    --stage;
  return stage;
}

} // namespace tcc
