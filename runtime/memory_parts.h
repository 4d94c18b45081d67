// ArenaParts: what the arena of a step holds at the moment when most of it is in use.
#pragma once
#include "runtime/plan.h"
#include <string>

namespace tcc::runtime {

/// Bytes of the arena at its fullest instruction; together they are plan.arenaBytes.
struct ArenaParts {
  int64_t updates = 0; ///< what instructions that write states read there or write there: gradients, mostly
  int64_t scratch = 0; ///< of one instruction alone
  int64_t values = 0;  ///< everything else: activations and gradients on their way
  int64_t unused = 0;  ///< holes between them
  std::string fullest; ///< the label of that instruction
};

ArenaParts arenaParts(const Plan &plan);

} // namespace tcc::runtime
