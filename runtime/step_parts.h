// Where a step may wait for its host. StepParts: after the instructions that an output needs and before any state is
// written. TensorTimes: when a tensor must be there.
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

struct TensorTimes {
  std::vector<size_t> inputEnds;    ///< of each input: the first instruction from which on nothing reads it
  std::vector<size_t> outputBegins; ///< of each output: the first instruction that writes it; none: their number
};

/// When the inputs and outputs of a valid plan must be there, as numbers of instructions that are in no branch or loop.
TensorTimes tensorTimes(const Plan &plan);

} // namespace tcc::runtime
