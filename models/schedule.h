// How long a run is, and the learning rate at each of its steps.
#pragma once
#include <cstdint>
#include <optional>

namespace tcc::models {

/// The end of a run: after `steps`, after `seconds`, or whichever comes first; without either it has no end.
struct RunLength {
  std::optional<int64_t> steps;
  std::optional<double> seconds;

  /// The share of the run, in [0, 1], that is over after `stepsDone` steps and `elapsed` seconds; 0 without an end.
  double progress(int64_t stepsDone, double elapsed) const;
  bool finished(int64_t stepsDone, double elapsed) const { return progress(stepsDone, elapsed) >= 1; }
};

enum class ScheduleKind {
  Cosine,   ///< falls from the peak to the floor along half a cosine
  Constant, ///< stays at the peak
  Trapezoid ///< stays at the peak, then falls along a line over the last `cooldown` of the run
};

/// The learning rate: rises linearly over the first `warmup` steps (peak/warmup, 2 peak/warmup, …), then follows
/// `kind`. A run that ends by time alone follows its clock; give it steps where it must be reproducible.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Cosine;
  double peak = 1e-3;
  int64_t warmup = 0;
  RunLength length = {};
  std::optional<double> floor = {}; ///< the lowest rate after the warm-up; by default a tenth of the peak for Cosine, 0
                                    ///< for Trapezoid, whose last step stays one step's fall above it
  double cooldown = 0.2;            ///< Trapezoid's fall, as a share of the run

  /// The rate of `step` (0-based), begun `elapsed` seconds after the first.
  double rate(int64_t step, double elapsed) const;
};

} // namespace tcc::models
