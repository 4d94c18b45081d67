// profileReport: a profile as a table for people. ProfileTable: the same as data, for programs and the page of
// --report.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/profiler.h"

namespace tcc::runtime {

/// A row of the table: all instructions of a step whose labels differ only in the numbers of layers ("h.*.mlp.gelu").
struct ProfileRow {
  std::string label, pattern, category;
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  /// The least seconds by the limits. Those of an instruction count as `arithmetic` or as `memory`, whichever binds it.
  double arithmetic = 0, memory = 0;
  std::vector<size_t> instructions; ///< their numbers, if the table is of a plan

  bool isOfArithmetic() const { return arithmetic > memory; }
  /// Whether it is faster than the limits allow, by more than a table rounds away.
  bool isAbove() const { return arithmetic + memory > 1.005 * seconds; }
  void add(const ProfileRow &other);
};

struct ProfileTable {
  double steps = 0, stepSeconds = 0; ///< the number of steps, and the seconds of all of them together
  std::vector<ProfileRow> rows;      ///< sums over all steps; the row that took longest comes first
  std::vector<double> where;         ///< seconds of matmuls, attention, kernels, copies and waiting

  /// The text of profileReport(); empty without a whole step.
  std::string text(size_t mostRows) const;
  /// {"steps", "step_ms", "where": [{"what", "ms"}], "rows": [{"label", "pattern", "category", "calls", "ms", "flops",
  /// "bytes", "least_ms", "bound_by", "instructions"}]}. All figures are for one step; "ms" is 0 if nothing ran.
  std::string json() const;
};

ProfileTable profileTable(const Profiler &profiler, const MachineLimits &limits);
/// What one step of the plan must cost by the limits, without running it. Rows are in the order of their least time,
/// then of their bytes.
ProfileTable planTable(const Plan &plan, const MachineLimits &limits);

/// The table of the steps in `profiler`. It has a row for each kernel and matmul, the longest first, with all layers in
/// one row ("h.*.mlp.gelu"). A row has calls, milliseconds and share of a step, GB/s, GFLOP/s, the share of what the
/// machine's limit allows (a kernel whose data is in a cache may be above the memory's limit), and which limit that is.
/// If `rows` is not 0, all after the first `rows` are one row "others". The last line says where a step's time went, in
/// parts that add up to 100 %. The text is empty without a whole step.
std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows = 16);

/// The parts of a whole in tenths of a percent, rounded so that they add up to 1000. The parts' sum must be above 0.
std::vector<int> tenthsOfPercent(const std::vector<double> &parts);

} // namespace tcc::runtime
