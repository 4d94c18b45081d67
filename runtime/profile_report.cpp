#include "runtime/profile_report.h"
#include "runtime/labels.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

namespace tcc::runtime {
namespace {

struct Row {
  std::string label;
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double arithmetic = 0, memory = 0; // seconds that the limits allow, by which is the longer

  bool isOfArithmetic() const { return arithmetic > memory; }
  /// Faster than the limits allow, beyond what a table rounds away.
  bool isAbove() const { return arithmetic + memory > 1.005 * seconds; }
  void add(const Row &other) {
    calls += other.calls;
    seconds += other.seconds;
    flops += other.flops;
    bytes += other.bytes;
    arithmetic += other.arithmetic;
    memory += other.memory;
  }
};

constexpr std::array partNames{"products", "attention", "kernels", "copies", "waiting"}; // StepParts, and the rest

std::string textOf(const Row &row, double steps, double stepSeconds) {
  char line[160];
  const double least = row.arithmetic + row.memory, seconds = std::max(row.seconds, 1e-12);
  std::snprintf(line, sizeof line, "%7.4g %10.3f %6.1f%% %8.1f %9.1f ", static_cast<double>(row.calls) / steps,
                row.seconds / steps * 1e3, 100 * row.seconds / stepSeconds, row.bytes / seconds * 1e-9,
                row.flops / seconds * 1e-9);
  std::string text = line;
  if (least > 0)
    std::snprintf(line, sizeof line, "%6.0f%%%c %-10s  ", 100 * least / seconds, row.isAbove() ? '!' : ' ',
                  row.isOfArithmetic() ? "arithmetic" : "memory");
  else
    std::snprintf(line, sizeof line, "%7s  %-10s  ", "-", "-");
  return text + line + row.label + "\n";
}

} // namespace

std::vector<int> tenthsOfPercent(const std::vector<double> &parts) {
  const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<int> tenths;
  std::vector<std::pair<double, size_t>> rests;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double share = 1000 * parts[i] / whole;
    tenths.push_back(static_cast<int>(share));
    rests.emplace_back(share - std::floor(share), i);
  }
  std::stable_sort(rests.begin(), rests.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  int missing = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (size_t i = 0; missing > 0 && i < rests.size(); ++i, --missing)
    ++tenths[rests[i].second];
  return tenths;
}

std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows) {
  // 1. Rows by label, and where the time went.
  std::map<std::string, Row> byLabel;
  std::vector<double> where(partNames.size(), 0);
  double steps = 0, stepSeconds = 0;
  for (const Profiler::Event &event : profiler.all()) {
    const double seconds = static_cast<double>(event.durationNs) * 1e-9;
    if (event.category == "step") {
      ++steps;
      stepSeconds += seconds;
      continue;
    }
    const Bound bound = limits.boundOf(event.flops, event.bytes, event.arithmetic);
    Row one{event.label, 1, seconds, static_cast<double>(event.flops), static_cast<double>(event.bytes), 0, 0};
    (bound.by == Bound::By::arithmetic ? one.arithmetic : one.memory) = bound.seconds;
    Row &row = byLabel[labelPattern(event.label)];
    row.label = row.calls ? joinedLabel(row.label, event.label) : event.label;
    row.add(one);
    where[static_cast<size_t>(event.part)] += seconds;
  }
  if (steps == 0 || stepSeconds == 0)
    return {};
  where.back() = std::max(0.0, stepSeconds - std::accumulate(where.begin(), where.end(), 0.0));

  // 2. The longest, and the others as one.
  std::vector<Row> sorted;
  for (auto &[label, row] : byLabel)
    sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row &a, const Row &b) { return a.seconds > b.seconds; });
  if (rows && sorted.size() > rows + 1) {
    Row others;
    for (size_t i = rows; i < sorted.size(); ++i)
      others.add(sorted[i]);
    others.label = "others (" + std::to_string(sorted.size() - rows) + " rows)";
    sorted.resize(rows);
    sorted.push_back(others);
  }

  // 3. Text.
  std::string text = "  calls         ms   share     GB/s   GFLOP/s  limit  bound by    what\n";
  for (const Row &row : sorted)
    text += textOf(row, steps, stepSeconds);
  for (const auto &[isOfArithmetic, why] :
       {std::pair(true, "! above the limit: that was measured on a busy machine, tcc --calibrate measures it again\n"),
        std::pair(false,
                  "! above memory's limit: a cache had the data, or the limit was measured on a busy machine\n")})
    if (std::ranges::any_of(sorted,
                            [&](const Row &row) { return row.isAbove() && row.isOfArithmetic() == isOfArithmetic; }))
      text += why;
  char number[64];
  std::snprintf(number, sizeof number, "a step takes %.3f ms:", stepSeconds / steps * 1e3);
  text += number;
  const std::vector<int> tenths = tenthsOfPercent(where);
  for (size_t i = 0; i < partNames.size(); ++i) {
    std::snprintf(number, sizeof number, "%s %s %d.%d %%", i ? "," : "", partNames[i], tenths[i] / 10, tenths[i] % 10);
    text += number;
  }
  return text + "\n";
}

} // namespace tcc::runtime
