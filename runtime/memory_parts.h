// The values in a step's arena: where each lies, when it lives, and what the arena holds when most of it is in use.
#pragma once
#include "runtime/plan.h"
#include <string>
#include <vector>

namespace tcc::runtime {

/// What the arena's bytes hold at the instruction where most of them are in use. The sum is plan.arenaBytes.
struct ArenaParts {
  int64_t updates = 0; ///< arena values that instructions which write states read or write: mostly gradients
  int64_t scratch = 0; ///< memory that one instruction alone uses, and packed operands that matmuls share
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
  size_t maker = 0;   ///< the first instruction that uses it, which is the one that writes it
  size_t last = 0;    ///< the last one that uses it
  int64_t offset = 0; ///< of its first byte in the arena
};

/// "update", "scratch" or "value".
const char *name(LiveValue::Kind kind);

/// Every value that an instruction uses.
std::vector<LiveValue> arenaValues(const Plan &plan);

/// For each instruction, the bytes of the values that live during it.
std::vector<int64_t> arenaInUse(const Plan &plan);

/// The fullest instruction and what lives there, in the order of arenaValues().
struct FullestMoment {
  size_t instruction = 0;
  int64_t unused = 0; ///< bytes in holes
  std::vector<LiveValue> values;
};
FullestMoment fullestMoment(const Plan &plan);

} // namespace tcc::runtime
