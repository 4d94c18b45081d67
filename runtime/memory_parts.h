// ArenaParts: what the arena of a step holds at the moment when most of it is in use.
#pragma once
#include "runtime/plan.h"
#include <string>
#include <vector>

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

/// A value of the arena that lives at the fullest instruction.
struct LiveValue {
  enum class Kind { update, scratch, value }; ///< as ArenaParts counts them
  Kind kind;
  int64_t bytes = 0;
  size_t maker = 0; ///< the instruction that uses it first, which writes it
};

/// The fullest instruction and what lives there, in the order of the arena's values.
struct FullestMoment {
  size_t instruction = 0;
  int64_t unused = 0; ///< bytes in holes
  std::vector<LiveValue> values;
};
FullestMoment fullestMoment(const Plan &plan);

} // namespace tcc::runtime
