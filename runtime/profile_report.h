// A profile as a table that people can act on.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/profiler.h"

namespace tcc::runtime {

/// Of the steps in `profiler`: a row for each kernel and product, the longest first, layers together
/// ("h.*.mlp.gelu"): calls, milliseconds and share of a step, GB/s, GFLOP/s, the share of what the machine's limit
/// allows (a kernel whose data a cache holds may be above memory's), and which limit that is. What has no row among the
/// first `rows` (0: all) is in one named "others". The last line says where a step's time went, in parts that add up to
/// 100 %. Empty without a whole step.
std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows = 16);

/// The parts of a whole in tenths of a percent, which add up to 1000; the parts' sum is above 0.
std::vector<int> tenthsOfPercent(const std::vector<double> &parts);

} // namespace tcc::runtime
