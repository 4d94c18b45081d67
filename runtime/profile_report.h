// profileReport: a profile as a table for people. ProfileTable: the same as data, for programs and the page of
// --report.
#pragma once
#include "runtime/machine_limits.h"
#include "runtime/profiler.h"

namespace tcc::runtime {

/// All instructions of a step whose labels differ in the numbers of layers alone ("h.*.mlp.gelu").
struct ProfileRow {
  std::string label, pattern, category;
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double arithmetic = 0, memory = 0; ///< seconds that the limits allow, by which is the longer
  std::vector<size_t> instructions;  ///< of the plan, where that is what the table is of

  bool isOfArithmetic() const { return arithmetic > memory; }
  /// Faster than the limits allow, beyond what a table rounds away.
  bool isAbove() const { return arithmetic + memory > 1.005 * seconds; }
  void add(const ProfileRow &other);
};

struct ProfileTable {
  double steps = 0, stepSeconds = 0; ///< stepSeconds: of all of them together
  std::vector<ProfileRow> rows;      ///< sums over all steps, the longest first
  std::vector<double> where;         ///< seconds of products, attention, kernels, copies, waiting

  /// The text of profileReport(); empty without a whole step.
  std::string text(size_t mostRows) const;
  /// {"steps", "step_ms", "where": [{"what", "ms"}], "rows": [{"label", "pattern", "category", "calls", "ms", "flops",
  /// "bytes", "least_ms", "bound_by", "instructions"}]}, all figures of one step; "ms" is 0 where nothing ran.
  std::string json() const;
};

ProfileTable profileTable(const Profiler &profiler, const MachineLimits &limits);
/// What one step of the plan costs; nothing has run. In the order of the least time by the limits, then of bytes.
ProfileTable planTable(const Plan &plan, const MachineLimits &limits);

/// The table of the steps in `profiler`. It has a row for each kernel and matmul, the longest first, with all layers in
/// one row ("h.*.mlp.gelu"). A row has calls, milliseconds and share of a step, GB/s, GFLOP/s, the share of what the
/// machine's limit allows (a kernel whose data is in a cache may be above the memory's limit), and which limit that is.
/// If `rows` is not 0, all after the first `rows` are one row "others". The last line says where a step's time went, in
/// parts that add up to 100 %. The text is empty without a whole step.
std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows = 16);

/// The parts of a whole in tenths of a percent, which add up to 1000; the parts' sum is above 0.
std::vector<int> tenthsOfPercent(const std::vector<double> &parts);

} // namespace tcc::runtime
