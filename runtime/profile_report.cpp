#include "runtime/profile_report.h"
#include "runtime/json_reader.h"
#include "runtime/labels.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

namespace tcc::runtime {
namespace {

constexpr std::array partNames{"products", "attention", "kernels", "copies", "waiting"}; // StepParts, and the rest

std::string textOf(const ProfileRow &row, double steps, double stepSeconds) {
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

/// Rows by pattern; each is added to with the label that both share.
class Rows {
public:
  void add(ProfileRow one) {
    one.pattern = labelPattern(one.label);
    ProfileRow &row = byPattern[one.pattern];
    row.label = row.calls ? joinedLabel(row.label, one.label) : one.label;
    row.pattern = one.pattern;
    row.category = one.category;
    row.add(one);
  }
  /// The one with most of `key` first.
  template <typename Key>
  std::vector<ProfileRow> sorted(Key key) && {
    std::vector<ProfileRow> list;
    for (auto &[pattern, row] : byPattern)
      list.push_back(std::move(row));
    std::stable_sort(list.begin(), list.end(),
                     [&](const ProfileRow &a, const ProfileRow &b) { return key(a) > key(b); });
    return list;
  }

private:
  std::map<std::string, ProfileRow> byPattern;
};

ProfileRow rowOf(const std::string &label, int64_t flops, int64_t bytes, const Bound &bound) {
  ProfileRow row;
  row.label = label;
  row.calls = 1;
  row.flops = static_cast<double>(flops);
  row.bytes = static_cast<double>(bytes);
  (bound.by == Bound::By::arithmetic ? row.arithmetic : row.memory) = bound.seconds;
  return row;
}

} // namespace

void ProfileRow::add(const ProfileRow &other) {
  calls += other.calls;
  seconds += other.seconds;
  flops += other.flops;
  bytes += other.bytes;
  arithmetic += other.arithmetic;
  memory += other.memory;
  instructions.insert(instructions.end(), other.instructions.begin(), other.instructions.end());
}

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

ProfileTable profileTable(const Profiler &profiler, const MachineLimits &limits) {
  ProfileTable table;
  table.where.resize(partNames.size());
  Rows rows;
  for (const Profiler::Event &event : profiler.all()) {
    const double seconds = static_cast<double>(event.durationNs) * 1e-9;
    if (event.category == "step") {
      ++table.steps;
      table.stepSeconds += seconds;
      continue;
    }
    ProfileRow one =
        rowOf(event.label, event.flops, event.bytes, limits.boundOf(event.flops, event.bytes, event.arithmetic));
    one.category = event.category;
    one.seconds = seconds;
    rows.add(std::move(one));
    table.where[static_cast<size_t>(event.part)] += seconds;
  }
  table.where.back() = std::max(0.0, table.stepSeconds - std::accumulate(table.where.begin(), table.where.end(), 0.0));
  table.rows = std::move(rows).sorted([](const ProfileRow &row) { return row.seconds; });
  return table;
}

ProfileTable planTable(const Plan &plan, const MachineLimits &limits) {
  ProfileTable table;
  table.steps = 1;
  Rows rows;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    ProfileRow one = rowOf(instruction.label, instruction.flops, instruction.bytes, limits.boundOf(instruction));
    one.category = wordsOf(instruction).category;
    one.instructions = {i};
    rows.add(std::move(one));
  }
  table.rows =
      std::move(rows).sorted([](const ProfileRow &row) { return std::pair(row.arithmetic + row.memory, row.bytes); });
  return table;
}

std::string ProfileTable::json() const {
  Json list = Json::array(), parts = Json::array();
  const double ms = 1e3 / std::max(steps, 1.0);
  for (size_t i = 0; i < where.size(); ++i)
    parts.push_back({{"what", partNames[i]}, {"ms", where[i] * ms}});
  for (const ProfileRow &row : rows)
    list.push_back({{"label", row.label},
                    {"pattern", row.pattern},
                    {"category", row.category},
                    {"calls", static_cast<double>(row.calls) / std::max(steps, 1.0)},
                    {"ms", row.seconds * ms},
                    {"flops", row.flops / std::max(steps, 1.0)},
                    {"bytes", row.bytes / std::max(steps, 1.0)},
                    {"least_ms", (row.arithmetic + row.memory) * ms},
                    {"bound_by", row.isOfArithmetic() ? "arithmetic" : "memory"},
                    {"instructions", row.instructions}});
  return writeJson({{"steps", steps}, {"step_ms", stepSeconds * ms}, {"where", parts}, {"rows", list}});
}

std::string ProfileTable::text(size_t mostRows) const {
  if (steps == 0 || stepSeconds == 0)
    return {};
  // 1. The longest, and the others as one.
  std::vector<ProfileRow> sorted = rows;
  if (mostRows && sorted.size() > mostRows + 1) {
    ProfileRow others;
    for (size_t i = mostRows; i < sorted.size(); ++i)
      others.add(sorted[i]);
    others.label = "others (" + std::to_string(sorted.size() - mostRows) + " rows)";
    sorted.resize(mostRows);
    sorted.push_back(others);
  }

  // 2. Text.
  std::string text = "  calls         ms   share     GB/s   GFLOP/s  limit  bound by    what\n";
  for (const ProfileRow &row : sorted)
    text += textOf(row, steps, stepSeconds);
  for (const auto &[isOfArithmetic, why] :
       {std::pair(true, "! above the limit: that was measured on a busy machine, tcc --calibrate measures it again\n"),
        std::pair(false,
                  "! above memory's limit: a cache had the data, or the limit was measured on a busy machine\n")})
    if (std::ranges::any_of(
            sorted, [&](const ProfileRow &row) { return row.isAbove() && row.isOfArithmetic() == isOfArithmetic; }))
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

std::string profileReport(const Profiler &profiler, const MachineLimits &limits, size_t rows) {
  return profileTable(profiler, limits).text(rows);
}

} // namespace tcc::runtime
