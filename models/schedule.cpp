#include "models/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tcc::models {

namespace {
/// The cosine's last value as a share of the peak.
constexpr double floorShare = 0.1;
} // namespace

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
  if (kind == ScheduleKind::Constant)
    return peak;
  double share;
  if (length.steps && !length.seconds) {
    // From the first step after the warm-up (the peak) to the last one (a tenth of it), both exactly.
    int64_t span = *length.steps - 1 - warmup;
    share = span > 0 ? std::min(1.0, double(step - warmup) / double(span)) : 0;
  } else {
    share = length.progress(step, elapsed);
  }
  double cosine = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return peak * (floorShare + (1 - floorShare) * cosine);
}

} // namespace tcc::models
