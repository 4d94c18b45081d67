// StepEvents: the plan of a step as a sequence of events of one rank: computing, and collectives that start and that
// are waited for.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/plan.h"

#include <cstdint>
#include <vector>

namespace tcc::models {

/// What a rank gives to a collective, whatever the number of ranks.
struct Exchanged {
  runtime::Exchange kind = runtime::Exchange::allGather;
  double bytes =
      0; ///< what the ranks exchange together; each rank sends or gets a share of 1 / ranks with each other one
};

struct StepEvent {
  double computedSeconds = 0; ///< since the event before, at the machine's limits
  int64_t flight = 0;         ///< which collective starts or is waited for
  bool starts = false;
  Exchanged exchange; ///< where it starts
};

struct StepEvents {
  std::vector<StepEvent> events; ///< in order; each collective starts and is waited for once
  double computedSeconds = 0;    ///< of the whole step
};

/// The events of a plan for two ranks or more. Parts of loops count as often as they run.
StepEvents eventsOf(const runtime::Plan &plan, const runtime::MachineLimits &limits);

} // namespace tcc::models
