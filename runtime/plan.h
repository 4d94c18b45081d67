// Plan: a compiled step as plain structs. It says which tensors come in and go out, where everything lies, and which
// instructions run in which order. It is read from JSON text and written to it. A plan must pass validatePlan() before
// anything is executed.
#pragma once
#include "runtime/error.h"
#include "runtime/instructions/instruction.h"
#include "runtime/plan_lists.h"

namespace tcc::runtime {

struct Plan {
  std::string name;
  std::vector<TensorSpec> inputs, outputs, states;
  std::vector<std::string> constants; ///< the raw bytes of each; at run time they are 64-byte aligned
  std::vector<PointerTable> tables;
  int64_t arenaBytes = 0;
  int64_t alignment = arenaAlignment; ///< of the arena's first byte and of the tensors that a device allocates
  int32_t threads = 1;                ///< the thread count that scratch buffers are sized for
  std::vector<Buffer> buffers;
  std::vector<KernelCode> kernels;
  std::vector<Instruction> instructions;
  bool operator==(const Plan &) const = default;

  /// What instructions refer to. The result is valid as long as the plan exists and no list grows.
  PlanLists lists() const { return {buffers, kernels, tables}; }

  /// Arena, states, inputs, outputs, constants and tables: the step's memory as planned.
  int64_t plannedBytes() const;
};

inline constexpr int64_t maxPlanTextBytes = int64_t{1} << 26; ///< JSON text

/// Checks every id, range, size and operand of the plan. The error names the place ("instruction 12 `gelu`: ...").
Error validatePlan(const Plan &plan);

/// The name of a custom op of the plan that calls a function of this process, which no file can hold; empty if there is
/// none.
std::string unsavableCall(const Plan &plan);

inline constexpr int64_t planVersion = 9; ///< the version of the JSON format

/// The plan as JSON text; the plan must be valid.
std::string planToJson(const Plan &plan);

/// Reads and validates. Errors: not JSON, another version, a missing or misplaced member, anything of validatePlan.
Expected<Plan> planFromJson(std::string_view text);

} // namespace tcc::runtime
