// StepParts: where a step may wait for its host, that is, after the instructions that an output needs and before any
// state is written.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

struct StepParts {
  /// For each of the outputs asked about, in order: how many instructions must have run before it can be read. Each
  /// number is at least as large as the one before.
  std::vector<size_t> ready;
  /// The first instruction that writes a state; if none does, the number of instructions.
  size_t firstStateWrite = 0;
  /// For each input the first instruction that reads it; if none does, the number of instructions.
  std::vector<size_t> firstRead;

  /// Whether the host may look at every one of these outputs and still stop the step with all states as they were.
  bool leavesStates() const { return ready.empty() || ready.back() <= firstStateWrite; }
};

/// The parts of a valid plan, for its first `outputs` outputs.
StepParts stepParts(const Plan &plan, size_t outputs);

} // namespace tcc::runtime
