#include "frontend/ablation.h"
#include "frontend/bar_plot.h"
#include "frontend/error.h"
#include "frontend/switches.h"
#include "runtime/json_reader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tcc {

namespace {

/// The value below which this share of the values lies, between two of them in proportion.
double quantileOf(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at), above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

const char *nameOf(const AblationRow &row) {
  return row.option.empty() ? "everything on" : row.option.c_str();
}

/// Whether the row is a measurement of one switch.
bool isOneSwitch(const AblationRow &row) {
  return !row.option.empty() && row.option != everythingOff && !row.ms.empty();
}

/// Both forms in turn, `rounds` times.
void time(AblationRow &row, AblatedStep &off, AblatedStep &whole, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const bool wholeFirst = round % 2 == 0;
    if (wholeFirst)
      row.besideMs.push_back(whole.milliseconds());
    row.ms.push_back(off.milliseconds());
    if (!wholeFirst)
      row.besideMs.push_back(whole.milliseconds());
  }
}

AblationRow rowWithout(const std::string &option, const Ablation &ablation, AblatedStep &whole, const MakeStep &make) {
  AblationRow row{.option = option};
  try {
    const std::unique_ptr<AblatedStep> off = make(option);
    row.changesNothing = off->isSameAs(whole);
    if (!row.changesNothing && ablation.untimed.empty())
      time(row, *off, whole, ablation.rounds);
    row.size = row.changesNothing ? whole.size() : off->size();
  } catch (const Error &problem) {
    if (problem.kind() == Error::Kind::internal)
      throw;
    row.missing = problem.message().empty() ? "the step does not compile without it" : problem.message();
    row.ms.clear();
    row.besideMs.clear();
  }
  return row;
}

runtime::Json jsonOf(const AblationRow &row, bool isSeen) {
  const bool isTimed = !row.ms.empty(), isThere = row.missing.empty();
  const auto whenThere = [&](int64_t value) { return isThere ? runtime::Json(value) : runtime::Json(); };
  const auto whenTimed = [&](auto value) { return isTimed ? runtime::Json(value) : runtime::Json(); };
  const MiddleHalf half = row.middleHalf();
  return {{"off", row.option.empty() ? runtime::Json() : runtime::Json(row.option)},
          {"kernels", whenThere(row.size.kernels)},
          {"matmuls", whenThere(row.size.matmuls)},
          {"planned_bytes", whenThere(row.size.plannedBytes)},
          {"changes_nothing", row.changesNothing},
          {"missing", isThere ? runtime::Json() : runtime::Json(row.missing)},
          {"ms", whenTimed(row.medianMs())},
          {"time_ratio", whenTimed(row.medianRatio())},
          {"quartiles", whenTimed(runtime::Json{half.low, half.high})},
          {"is_seen", whenTimed(isSeen)},
          {"ms_rounds", row.ms},
          {"beside_ms_rounds", row.besideMs}};
}

} // namespace

double AblationRow::medianMs() const {
  return ms.empty() ? 0 : quantileOf(ms, 0.5);
}

std::vector<double> AblationRow::ratios() const {
  std::vector<double> list;
  for (size_t i = 0; i < ms.size(); ++i)
    list.push_back(besideMs[i] > 0 ? ms[i] / besideMs[i] : 1);
  std::ranges::sort(list);
  return list;
}

double AblationRow::medianRatio() const {
  return ms.empty() ? 1 : quantileOf(ratios(), 0.5);
}

MiddleHalf AblationRow::middleHalf() const {
  return ms.empty() ? MiddleHalf() : MiddleHalf{quantileOf(ratios(), 0.25), quantileOf(ratios(), 0.75)};
}

bool Ablation::isSeen(const AblationRow &row) const {
  return isOneSwitch(row) && rounds >= fewestRounds && !row.middleHalf().contains(1) &&
         !rows.front().middleHalf().contains(row.medianRatio());
}

const AblationRow *Ablation::dearest() const {
  const AblationRow *found = nullptr;
  for (const AblationRow &row : rows)
    if (isSeen(row) && row.medianRatio() > std::max(1.0, found ? found->medianRatio() : 1))
      found = &row;
  return found;
}

std::vector<const AblationRow *> Ablation::harmful() const {
  std::vector<const AblationRow *> found;
  for (const AblationRow &row : rows)
    if (isSeen(row) && row.medianRatio() < 1)
      found.push_back(&row);
  return found;
}

std::string Ablation::head() const {
  const std::string sizes =
      fmt::format("{}: everything on, then one switch off at a time{}\n  {:<26} {:>8} {:>8} {:>12}", title,
                  untimed.empty() ? fmt::format(", {} rounds", rounds) : "", "off", "kernels", "matmuls", "planned MB");
  if (!untimed.empty())
    return sizes + "\n";
  return sizes + fmt::format(" {:>11} {:>7} {:>13}{}\n", "ms", "time", "quartiles", tokens > 0 ? "   tokens/s" : "");
}

std::string Ablation::text(const AblationRow &row) const {
  if (!row.missing.empty())
    return fmt::format("  {:<26} cannot be left out: {}\n", nameOf(row), row.missing);
  std::string line = fmt::format("  {:<26} {:>8} {:>8} {:>12.3f}", nameOf(row), row.size.kernels, row.size.matmuls,
                                 double(row.size.plannedBytes) / 1e6);
  if (row.changesNothing)
    return line + "  changes nothing here\n";
  if (!row.ms.empty()) {
    const MiddleHalf half = row.middleHalf();
    line += fmt::format(" {:>11.4f} {:>6.3f}x {:>13}", row.medianMs(), row.medianRatio(),
                        fmt::format("{:.3f}..{:.3f}", half.low, half.high));
    if (tokens > 0)
      line += fmt::format(" {:>10.0f}", tokens / row.medianMs() * 1e3);
  }
  return line + "\n";
}

std::string Ablation::words() const {
  if (!untimed.empty())
    return fmt::format("not timed: {}\n", untimed);
  std::string lines;
  if (const AblationRow *most = dearest())
    lines = fmt::format("{} is the dearest: the step takes {:.3f} times as long\n", most->option, most->medianRatio());
  else
    lines = rounds < fewestRounds ? fmt::format("fewer than {} rounds name no switch\n", fewestRounds)
                                  : "no switch brings more than the runs of one step differ\n";
  for (const AblationRow *row : harmful())
    lines += fmt::format("{} makes it faster here: {:.3f} times the time\n", row->option, row->medianRatio());
  const std::string limit = bound.text();
  return limit.empty() ? lines : lines + limit + "\n";
}

std::string Ablation::json() const {
  runtime::Json list = runtime::Json::array(), faster = runtime::Json::array();
  for (const AblationRow &row : rows)
    list.push_back(jsonOf(row, isSeen(row)));
  for (const AblationRow *row : harmful())
    faster.push_back(row->option);
  const AblationRow *most = dearest();
  runtime::Json object = {{"version", 2},
                          {"title", title},
                          {"untimed", untimed.empty() ? runtime::Json() : runtime::Json(untimed)},
                          {"rounds", rounds},
                          {"rows", list},
                          {"dearest", most ? runtime::Json(most->option) : runtime::Json()},
                          {"faster_without", faster},
                          {"bound", runtime::Json::parse(bound.json())}};
  if (tokens > 0)
    object["tokens"] = tokens;
  return runtime::writeJson(object);
}

std::string Ablation::picture() const {
  std::vector<Bar> bars;
  for (const AblationRow &row : rows) {
    Bar bar{.name = nameOf(row), .tooltip = text(row)};
    const double megabytes = double(row.size.plannedBytes) / 1e6;
    if (!row.missing.empty() || row.changesNothing) {
      bar.text = row.changesNothing ? "changes nothing here" : "cannot be left out";
    } else if (row.ms.empty()) {
      bar.value = megabytes;
      bar.text = fmt::format("{:.3f} MB planned", megabytes);
    } else {
      bar.value = row.medianMs();
      bar.low = quantileOf(row.ms, 0.25);
      bar.high = quantileOf(row.ms, 0.75);
      bar.text = fmt::format("{:.4g} ms, x{:.3f}, {:.4g} MB", bar.value, row.medianRatio(), megabytes);
    }
    bars.push_back(std::move(bar));
  }
  return barPlot(bars, title + (untimed.empty() ? ": time with one switch off" : ": memory with one switch off"));
}

void ablate(Ablation &ablation, AblatedStep &whole, std::span<const std::string> options, const MakeStep &make,
            const std::function<void(const AblationRow &)> &tell) {
  AblationRow everything;
  if (ablation.untimed.empty())
    time(everything, whole, whole, ablation.rounds);
  everything.size = whole.size();
  ablation.rows = {std::move(everything)};
  tell(ablation.rows.back());
  for (const std::string &option : options) {
    ablation.rows.push_back(rowWithout(option, ablation, whole, make));
    tell(ablation.rows.back());
  }
}

} // namespace tcc
