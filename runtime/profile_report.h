// profileReport: a profile as a table for people.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/profiler.h"

namespace tcc::runtime {

/// The table of the steps in `profiler`. It has a row for each kernel and matmul, the longest first, with all layers in
/// one row ("h.*.mlp.gelu"). A row has calls, milliseconds and share of a step, GB/s, GFLOP/s, the share of what the
/// machine's limit allows (a kernel whose data is in a cache may be above the memory's limit), and which limit that is.
/// If `rows` is not 0, all after the first `rows` are one row "others". The last line says where a step's time went, in
/// parts that add up to 100 %. The text is empty without a whole step.
std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows = 16);

/// The parts of a whole in tenths of a percent, which add up to 1000; the parts' sum is above 0.
std::vector<int> tenthsOfPercent(const std::vector<double> &parts);

} // namespace tcc::runtime
