// StepBound: what the time of a step is spent on, and which of four limits binds it: matmuls, attention, the memory
// traffic of kernels, or launches. Launches are the cost of beginning instructions that themselves take hardly any
// time.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/plan.h"
#include "runtime/profiler.h"
#include <array>
#include <optional>
#include <string>

namespace tcc::runtime {

enum class StepLimit : uint8_t { matmuls, attention, traffic, launches };
inline constexpr size_t stepLimits = 4;

struct StepBound {
  bool isMeasured = false;                  ///< whether `seconds` was measured; if not, it is the same as `least`
  std::array<double, stepLimits> seconds{}; ///< of one step, by StepLimit
  std::array<double, stepLimits> least{};   ///< the least that the limits allow for them

  double total() const;
  /// What most of the time is spent on; nothing if nothing is known.
  std::optional<StepLimit> limit() const;
  /// "bound by matmuls: 71.2 % of a step's 12.3 ms, at 85 % of what the limits allow; memory traffic 20.1 %, …"; empty
  /// where nothing is known.
  std::string text() const;
  /// {"by", "measured", "ms": {"matmuls", "attention", "memory traffic", "launches"}, "least_ms": {…}}; null where
  /// nothing is known.
  std::string json() const;
};

/// How often each instruction of a plan runs in a step. One in a loop runs once for each turn.
std::vector<double> turnsOf(const Plan &plan);

/// The bound of the whole steps in `profiler`. An instruction counts as a launch if it takes less than 20 µs and the
/// limits explain less than half of that time. The time between instructions counts as launches too.
StepBound measuredBound(const Profiler &profiler, const MachineLimits &limits);

/// The bound of a plan that has not run, by the least time of each instruction. Nothing is known if the plan has
/// matmuls of a type whose rate was not measured.
StepBound leastBound(const Plan &plan, const MachineLimits &limits);

} // namespace tcc::runtime
