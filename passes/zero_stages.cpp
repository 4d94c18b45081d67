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

int lastStage(int64_t lanes, int64_t ranks) {
  int stage = mostZero;
  while (stage > 0 && !lanesRefusal(stage, lanes, ranks).empty())
    --stage;
  return stage;
}

} // namespace tcc
