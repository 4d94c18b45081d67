// What Function::report() says, counted while calls run.
#include "frontend/break_words.h"
#include "frontend/function_impl.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tcc {
namespace {

constexpr int64_t manyCalls = 8;
constexpr int64_t manySegments = 64, mostSegments = 1024; // compiled for one place in one call

} // namespace

size_t Function::Impl::siteOf(const HostRead &read) {
  const std::string why = breakReason(read.kind, read.name);
  for (size_t i = 0; i < breaks.sites.size(); ++i) {
    BreakSite &site = breaks.sites[i];
    if (site.line == read.loc.line() && site.column == read.loc.column() && site.why == why &&
        site.file == read.loc.file())
      return ++site.times, i;
  }
  breaks.sites.push_back({.file = std::string(read.loc.file()),
                          .line = read.loc.line(),
                          .column = read.loc.column(),
                          .source = sourceLine(std::string(read.loc.file()), read.loc.line()),
                          .why = why,
                          .instead = std::string(insteadOf(read.kind)),
                          .times = 1});
  segmentsOfSite.emplace_back();
  return breaks.sites.size() - 1;
}

/// Counts the kernels of the last break's own segment.
void Function::Impl::countSegment(const Segment &segment, const runtime::Executable &executable) {
  if (segmentsOfSite[now.lastSite].insert(&executable).second)
    breaks.sites[now.lastSite].kernels +=
        std::ranges::count_if(executable.plan().instructions, [](const runtime::Instruction &instruction) {
          return runtime::wordsOf(instruction).category == "kernel";
        });
  countOps(segment);
}

/// Ops that have run before in this call are the last break's.
void Function::Impl::countOps(const Segment &segment) {
  for (uint32_t op : segment.ops) {
    if (now.timesRun.size() <= op)
      now.timesRun.resize(op + 1);
    breaks.sites[now.lastSite].opsAgain += now.timesRun[op]++ > 0;
  }
}

/// Why a step is compiled although something was before: the way that the call took, where that is new; otherwise what
/// the cache says, the guard or constant that has changed.
std::string Function::Impl::recompileReason(std::string missed) const {
  if (!now.isNewProgram)
    return missed;
  if (!now.becomesInput.empty())
    return now.becomesInput;
  const std::optional<Departure> &left = tracers.front().second.departure();
  return left && cache.size() > 0 ? wayChanged(*left) : missed;
}

void Function::Impl::noteRecompile(const std::string &why) {
  if (options.recompilesAreErrors) {
    const std::string text = "'" + name + "' " + why + " [-Werror=recompile]";
    const std::optional<Departure> &left = tracer().departure();
    if (now.isNewProgram && left && left->place.isKnown())
      throw Error(text, left->place);
    throw Error(text);
  }
  for (RecompileReason &known : breaks.recompiles)
    if (known.reason == why) {
      ++known.times;
      return;
    }
  constexpr size_t mostReasons = 100;
  if (breaks.recompiles.size() < mostReasons)
    breaks.recompiles.push_back({why, 1});
}

/// A segment was compiled for the last break's place.
void Function::Impl::noteSegment(const HostRead &read) {
  const int64_t here = ++now.compiledFor[now.lastSite];
  const std::string what = "'" + name + "' has compiled " + std::to_string(here) + " segments in one call for " +
                           std::string(nameOf(read.kind)) + " at " + shortPlace(read.loc) +
                           "; a loop that ends by data needs turns of equal ops, shapes and attributes";
  if (here >= mostSegments)
    throw Error(what, read.loc);
  if (here >= manySegments && !std::exchange(saidManySegments, true))
    say("warning: " + what);
}

void Function::Impl::warnIfAlwaysCompiled() {
  callsInARow = compilations > compiledBefore ? callsInARow + 1 : 0;
  compiledBefore = compilations;
  if (callsInARow == manyCalls)
    say("warning: '" + name + "' has compiled at each of its last " + std::to_string(manyCalls) + " calls; the last " +
        "one " + reason + "; make what changes an input, or take a number of iterations from a few that repeat");
}

BreakReport Function::Impl::breakReport() const {
  BreakReport report = breaks;
  report.function = name;
  report.calls = counts.calls;
  report.compiled = compilations;
  for (size_t i = 0; i < report.sites.size(); ++i)
    report.sites[i].segments = static_cast<int64_t>(segmentsOfSite[i].size());
  return report;
}

Function::Impl::~Impl() {
  const char *wanted = std::getenv("TCC_GRAPH_BREAKS");
  if (wanted && std::string_view(wanted) == "1" && counts.calls > 0)
    std::fprintf(stderr, "%s", breakReport().text().c_str());
}

} // namespace tcc
