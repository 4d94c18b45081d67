// The values of a step's arena: where each lies and when it lives, and what the arena holds when most of it is in use.
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

/// A value of the arena, as a rectangle of instructions and bytes.
struct LiveValue {
  enum class Kind { update, scratch, value }; ///< as ArenaParts counts them
  Kind kind;
  int64_t bytes = 0;
  size_t maker = 0;   ///< the instruction that uses it first, which writes it
  size_t last = 0;    ///< the last one that uses it
  int64_t offset = 0; ///< of its first byte in the arena
};

/// "update", "scratch" or "value".
const char *name(LiveValue::Kind kind);

/// Every value that an instruction uses.
std::vector<LiveValue> arenaValues(const Plan &plan);

/// Bytes of values that live over each instruction.
std::vector<int64_t> arenaInUse(const Plan &plan);

/// The fullest instruction and what lives there, in the order of arenaValues().
struct FullestMoment {
  size_t instruction = 0;
  int64_t unused = 0; ///< bytes in holes
  std::vector<LiveValue> values;
};
FullestMoment fullestMoment(const Plan &plan);

} // namespace tcc::runtime
