// Where a step may wait for its host: behind the instructions that an output needs, before any state is written.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

struct StepParts {
  /// For each of the outputs asked about, in order: how many instructions must have run. Never falls.
  std::vector<size_t> ready;
  /// The first instruction that writes a state; as many as there are if none does.
  size_t firstStateWrite = 0;
  /// For each input the first instruction that reads it; as many as there are if none does.
  std::vector<size_t> firstRead;

  /// Whether the host may look at every one of these outputs and still stop the step with all states as they were.
  bool leavesStates() const { return ready.empty() || ready.back() <= firstStateWrite; }
};

/// Of the first `asked` outputs. The plan is valid.
StepParts stepParts(const Plan &plan, size_t asked);

} // namespace tcc::runtime
