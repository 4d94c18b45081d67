#include "frontend/driver/bench.h"
#include "frontend/driver/outputs.h"
#include "runtime/executable_limits.h"
#include "runtime/json_reader.h"
#include "runtime/profile_report.h"
#include "runtime/step_bound.h"
#include "llvm/Support/Format.h"
#include <algorithm>

namespace tcc::driver {
namespace {

using runtime::Json;

constexpr int64_t recordedRuns = 3; // on a device that runs faster while nobody records

std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(value < 100 ? "%.3g" : "%.0f", value);
  return text;
}

/// {"version": 1, "input", "target", "threads", "runs", "ms", "ms_min", "ms_max", "flops", "items", "unit", "items_of",
/// "items_per_second", "planned_bytes", "peak_bytes", "kernels", "matmuls", "limits", "bound", "profile"}
std::string jsonOf(std::vector<double> times, const RunItems &items, const runtime::Executable &executable,
                   const Options &options, const runtime::Profiler &profiler) {
  const runtime::MachineLimits limits = runtime::limitsOf(executable);
  const auto count = [&](const char *key) {
    const auto found = executable.metadata().find(key);
    return found == executable.metadata().end() ? Json() : Json(std::atoll(found->second.c_str()));
  };
  const double median = medianOf(times);
  const auto [least, most] = std::ranges::minmax(times);
  const bool hasItems = !items.of.empty();
  return runtime::writeJson(
      {{"version", 1},
       {"input", options.inputs.front()},
       {"target", executable.target()},
       {"threads", executable.threads()},
       {"runs", times.size()},
       {"ms", median},
       {"ms_min", least},
       {"ms_max", most},
       {"flops", flopsOf(executable.plan())},
       {"items", hasItems ? Json(items.count) : Json()},
       {"unit", hasItems ? Json(items.unit) : Json()},
       {"items_of", hasItems ? Json(items.of) : Json()},
       {"items_per_second", hasItems ? Json(static_cast<double>(items.count) / median * 1e3) : Json()},
       {"planned_bytes", executable.plannedBytes()},
       {"peak_bytes", executable.peakBytes()},
       {"kernels", count("kernels")},
       {"matmuls", count("matmuls")},
       {"limits",
        {{"product_flops", limits.productFlops},
         {"bf16_product_flops", limits.bf16ProductFlops},
         {"bytes_per_second", limits.bytesPerSecond}}},
       {"bound", Json::parse(runtime::measuredBound(profiler, limits).json())},
       {"profile", Json::parse(runtime::profileTable(profiler, limits).json())}});
}

} // namespace

RunItems itemsOf(const runtime::Plan &plan, const RunValues &values) {
  for (const runtime::TensorSpec &spec : plan.inputs) {
    if (spec.shape.empty())
      continue;
    const auto hint = values.hints.find(spec.name);
    RunItems items{.of = spec.name};
    const bool isTokens = hint != values.hints.end() && hint->second.kind == ValueHint::Kind::token;
    items.unit = isTokens ? "tokens" : "rows";
    items.count = 1;
    for (size_t i = 0; i < spec.shape.size() - (isTokens ? 0 : 1); ++i)
      items.count *= spec.shape[i];
    return items;
  }
  return {};
}

double flopsOf(const runtime::Plan &plan) {
  const std::vector<double> turns = runtime::turnsOf(plan);
  double flops = 0;
  for (size_t i = 0; i < turns.size(); ++i)
    flops += turns[i] * static_cast<double>(plan.instructions[i].flops);
  return flops;
}

double medianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void bench(Stage &stage, runtime::Executable &executable, const Options &options, const RunValues &values,
           runtime::Profiler &profiler) {
  const bool recordsAll = executable.device()->sharesHostMemory();
  stage.warmUp();
  const std::vector<double> times = stage.times(*options.benchRuns, recordsAll ? &profiler : nullptr);
  if (!recordsAll)
    stage.times(std::min(recordedRuns, *options.benchRuns), &profiler);
  const double median = medianOf(times), flops = flopsOf(executable.plan());
  const auto [least, most] = std::ranges::minmax(times);
  const RunItems items = itemsOf(executable.plan(), values);
  llvm::raw_ostream &os = options.json == "-" ? llvm::errs() : llvm::outs();
  os << llvm::format("%.4f ms median, %.4f min, %.4f max of %d runs", median, least, most,
                     static_cast<int>(times.size()));
  if (!items.of.empty() && median > 0)
    os << ", " << number(static_cast<double>(items.count) / median * 1e3) << ' ' << items.unit << "/s (" << items.count
       << (items.unit == items.of ? "" : " of " + items.of) << ')';
  if (flops > 0 && median > 0)
    os << llvm::format(", %.2f GFLOP/s", flops / median / 1e6);
  os << ", peak " << bytesText(executable.peakBytes()) << '\n'
     << runtime::profileReport(profiler, runtime::limitsOf(executable), profileRows);
  if (!options.json.empty())
    writeResult(options.json, indentedJson(jsonOf(times, items, executable, options, profiler)));
}

} // namespace tcc::driver
