// What graph breaks cost a call: the path that it takes, with its breaks and as one step, in turns over the same
// values. The median of the differences between neighbours is the cost: what else the machine does falls on both.
#include "codegen/stopwatch.h"
#include "frontend/function_impl.h"
#include <algorithm>
#include <cstring>

namespace tcc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int warmUpCalls = 3;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void waitFor(const std::vector<Array> &results) {
  for (const Array &result : results)
    result.rawForReading();
}

/// The values of states, which come back when it goes.
class SavedStates {
public:
  explicit SavedStates(const Record &record) {
    for (const Record::Argument &argument : record.arguments)
      if (argument.state)
        saved.emplace_back(argument.state, copyOf(argument.state));
  }
  ~SavedStates() { restore(); }
  SavedStates(const SavedStates &) = delete;
  SavedStates &operator=(const SavedStates &) = delete;
  void restore() const {
    for (const auto &[state, bytes] : saved)
      if (!bytes.empty())
        std::memcpy(state.raw(), bytes.data(), bytes.size());
  }

private:
  std::vector<std::pair<State, std::string>> saved;
  static std::string copyOf(const State &state) {
    return {static_cast<const char *>(state.rawForReading()), static_cast<size_t>(state.bytes())};
  }
};

} // namespace

/// Milliseconds of one call but for what tracing itself takes.
double Function::Impl::timedCall(std::span<const Array> arguments) {
  const Clock::time_point start = Clock::now();
  double tracing = 0;
  {
    const CallScope scope(*this, arguments); // what was kept goes with it, within the call
    prepare(arguments);
    tracing = millisecondsSince(start) - now.answersMs;
    waitFor(recorded.record->reads.empty() ? run(*current, *recorded.record, arguments) : finish());
  }
  return millisecondsSince(start) - tracing;
}

BreakReport Function::Impl::measureBreaks(std::span<const Array> arguments, int runs) {
  const auto oldBreaks = breaks;
  const auto oldSegments = segmentsOfSite;
  const auto oldCounts = counts;
  const int64_t compiled = compilations;
  {
    const CallScope scope(*this, arguments); // which states there are
    if (!hasPathFor(arguments))
      trace(arguments);
  }
  const SavedStates states(*recorded.record);
  std::vector<double> without, differences;
  for (int i = 0; i < warmUpCalls; ++i, states.restore())
    timedCall(arguments);
  Record whole = *recorded.record;
  whole.reads.clear();
  const auto oneStep = compile(whole, options.outputs);
  for (int i = -warmUpCalls; i < std::max(runs, 1); ++i) {
    double withBreaks = 0, asOne = 0;
    for (const bool breaksNow : {i % 2 == 0, i % 2 != 0}) { // each is first as often as the other
      if (breaksNow) {
        withBreaks = timedCall(arguments);
      } else {
        const Clock::time_point start = Clock::now();
        waitFor(run(*oneStep, whole, arguments));
        asOne = millisecondsSince(start);
      }
      states.restore();
    }
    if (i >= 0)
      without.push_back(asOne), differences.push_back(withBreaks - asOne);
  }
  const BreakReport measured = std::exchange(breaks, oldBreaks);
  segmentsOfSite = oldSegments;
  counts = oldCounts;
  compilations = compiledBefore = compiled;

  BreakReport report = breakReport();
  report.oneStepMs = median(without);
  report.withBreaksMs = report.oneStepMs + median(differences);
  double all = 0; // what the host has spent, by site, says whose share is whose
  const auto spent = [&](size_t site) {
    return measured.sites[site].milliseconds - (site < oldBreaks.sites.size() ? oldBreaks.sites[site].milliseconds : 0);
  };
  for (size_t site = 0; site < report.sites.size(); ++site)
    all += spent(site);
  for (size_t site = 0; site < report.sites.size() && all > 0; ++site)
    report.sites[site].measuredMs = (report.withBreaksMs - report.oneStepMs) * spent(site) / all;
  return report;
}

} // namespace tcc
