#include "models/counter_random.h"

#include <cmath>

namespace tcc::models {

namespace {

constexpr double centre[6] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                              1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
constexpr double centreBelow[5] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                                   6.680131188771972e+01, -1.328068155288572e+01};
constexpr double tail[6] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                            -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
constexpr double tailBelow[4] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                                 3.754408661907416e+00};
constexpr double tailStart = 0.02425;

/// The lower tail's quantile at probability p < tailStart.
double lowerTail(double p) {
  double q = std::sqrt(-2 * std::log(p));
  double above = ((((tail[0] * q + tail[1]) * q + tail[2]) * q + tail[3]) * q + tail[4]) * q + tail[5];
  double below = (((tailBelow[0] * q + tailBelow[1]) * q + tailBelow[2]) * q + tailBelow[3]) * q + 1;
  return above / below;
}

} // namespace

double normalBits(uint64_t bits) {
  double p = double(bits >> 12) * 0x1p-52 + 0x1p-53; // exact, within (0, 1) and symmetric about one half
  if (p < tailStart)
    return lowerTail(p);
  if (p > 1 - tailStart)
    return -lowerTail(1 - p);
  double q = p - 0.5, r = q * q;
  double above =
      (((((centre[0] * r + centre[1]) * r + centre[2]) * r + centre[3]) * r + centre[4]) * r + centre[5]) * q;
  double below =
      ((((centreBelow[0] * r + centreBelow[1]) * r + centreBelow[2]) * r + centreBelow[3]) * r + centreBelow[4]) * r +
      1;
  return above / below;
}

} // namespace tcc::models
