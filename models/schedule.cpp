#include "models/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tcc::models {

double RunLength::progress(int64_t stepsDone, double elapsed) const {
  double share = 0;
  if (steps)
    share = *steps > 0 ? double(stepsDone) / double(*steps) : 1;
  if (seconds)
    share = std::max(share, *seconds > 0 ? elapsed / *seconds : 1);
  return std::clamp(share, 0.0, 1.0);
}

double Schedule::rate(int64_t step, double elapsed) const {
  if (step < warmup)
    return peak * double(step + 1) / double(warmup);
  switch (kind) {
  case ScheduleKind::Constant:
    return peak;
  case ScheduleKind::Trapezoid: {
    // The share of the fall that is over; a step's own is not, so no step is spent at a floor of 0.
    const double left = 1 - length.progress(step, elapsed);
    const double above = cooldown > 0 ? std::min(1.0, left / cooldown) : 1;
    const double lowest = floor.value_or(0);
    return lowest + (peak - lowest) * above;
  }
  case ScheduleKind::Cosine:
    break;
  }
  double share;
  if (length.steps && !length.seconds) {
    // From the first step after the warm-up (the peak) to the last one (the floor), both exactly.
    int64_t span = *length.steps - 1 - warmup;
    share = span > 0 ? std::min(1.0, double(step - warmup) / double(span)) : 0;
  } else {
    share = length.progress(step, elapsed);
  }
  const double lowest = floor.value_or(0.1 * peak);
  return lowest + (peak - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

} // namespace tcc::models
