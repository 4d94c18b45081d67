#include "runtime/step_bound.h"
#include "runtime/json_reader.h"
#include "runtime/profile_report.h"
#include <algorithm>
#include <cstdio>
#include <numeric>

namespace tcc::runtime {
namespace {

constexpr std::array<const char *, stepLimits> names{"matmuls", "attention", "memory traffic", "launches"};
constexpr double shortSeconds = 20e-6;

StepLimit limitOf(StepPart part) {
  switch (part) {
  case StepPart::products:
    return StepLimit::matmuls;
  case StepPart::attention:
    return StepLimit::attention;
  case StepPart::kernels:
  case StepPart::copies:
    return StepLimit::traffic;
  }
  return StepLimit::traffic;
}

Json millisecondsOf(const std::array<double, stepLimits> &seconds) {
  Json object;
  for (size_t i = 0; i < stepLimits; ++i)
    object[names[i]] = seconds[i] * 1e3;
  return object;
}

} // namespace

double StepBound::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::optional<StepLimit> StepBound::limit() const {
  if (total() <= 0)
    return std::nullopt;
  return static_cast<StepLimit>(std::ranges::max_element(seconds) - seconds.begin());
}

std::string StepBound::text() const {
  const std::optional<StepLimit> binding = limit();
  if (!binding)
    return {};
  const auto first = static_cast<size_t>(*binding);
  const std::vector<int> tenths = tenthsOfPercent({seconds.begin(), seconds.end()});
  const auto share = [&](size_t i) {
    return std::to_string(tenths[i] / 10) + "." + std::to_string(tenths[i] % 10) + " %";
  };
  char words[96];
  std::snprintf(words, sizeof words, isMeasured ? " of a step's %.4g ms" : " of the least time of a step, %.4g ms",
                total() * 1e3);
  std::string text = std::string("bound by ") + names[first] + ": " + share(first) + words;
  if (isMeasured && least[first] > 0 && *binding != StepLimit::launches) {
    std::snprintf(words, sizeof words, ", at %.0f %% of what the machine's limits allow",
                  100 * least[first] / seconds[first]);
    text += words;
    if (least[first] > 1.005 * seconds[first])
      text += ", which were measured on a busy machine or are below a cache's";
  }
  for (size_t i = 0; i < stepLimits; ++i)
    if (i != first && (isMeasured || i != static_cast<size_t>(StepLimit::launches)))
      text += (text.find(';') == std::string::npos ? "; " : ", ") + std::string(names[i]) + " " + share(i);
  return text;
}

std::string StepBound::json() const {
  const std::optional<StepLimit> binding = limit();
  if (!binding)
    return "null";
  return writeJson({{"by", names[static_cast<size_t>(*binding)]},
                    {"measured", isMeasured},
                    {"ms", millisecondsOf(seconds)},
                    {"least_ms", millisecondsOf(least)}});
}

std::vector<double> turnsOf(const Plan &plan) {
  std::vector<double> turns;
  std::vector<std::pair<size_t, double>> loops{{plan.instructions.size(), 1.0}}; // where each ends, and its turns
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    while (loops.back().first == i)
      loops.pop_back();
    turns.push_back(loops.back().second);
    if (const auto *loop = std::get_if<LoopCall>(&plan.instructions[i].call); loop && loop->body > 0)
      loops.emplace_back(i + 1 + loop->body, turns.back() * static_cast<double>(loop->count));
  }
  return turns;
}

StepBound measuredBound(const Profiler &profiler, const MachineLimits &limits) {
  StepBound bound{.isMeasured = true};
  double steps = 0, whole = 0;
  for (const Profiler::Event &event : profiler.all()) {
    const double seconds = static_cast<double>(event.durationNs) * 1e-9;
    if (event.category == "step") {
      ++steps;
      whole += seconds;
      continue;
    }
    const double least = limits.boundOf(event.flops, event.bytes, event.arithmetic).seconds;
    const bool isLaunch = seconds < shortSeconds && least < seconds / 2;
    const auto place = static_cast<size_t>(isLaunch ? StepLimit::launches : limitOf(event.part));
    bound.seconds[place] += seconds;
    bound.least[place] += least;
  }
  if (steps == 0)
    return {};
  bound.seconds[static_cast<size_t>(StepLimit::launches)] += std::max(0.0, whole - bound.total());
  for (auto *sums : {&bound.seconds, &bound.least})
    for (double &sum : *sums)
      sum /= steps;
  return bound;
}

StepBound leastBound(const Plan &plan, const MachineLimits &limits) {
  StepBound bound;
  const std::vector<double> turns = turnsOf(plan);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    const StepPart part = partOf(instruction);
    if (part == StepPart::products && limits.product(multiplied(instruction)) == 0)
      return {};
    bound.seconds[static_cast<size_t>(limitOf(part))] += turns[i] * limits.boundOf(instruction).seconds;
  }
  bound.least = bound.seconds;
  return bound;
}

} // namespace tcc::runtime
