#include "frontend/break_report.h"
#include "frontend/loc.h"
#include "llvm/Support/JSON.h"
#include <cmath>
#include <cstdio>
#include <fstream>

namespace tcc {
namespace {

std::string number(double value) {
  if (std::isnan(value))
    return "unmeasured";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string count(int64_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

llvm::json::Value numberOrNull(double value) {
  return std::isnan(value) ? llvm::json::Value(nullptr) : llvm::json::Value(value);
}

llvm::json::Value toJson(const BreakSite &site) {
  return llvm::json::Object{{"file", site.file},
                            {"line", site.line},
                            {"column", site.column},
                            {"source", site.source},
                            {"why", site.why},
                            {"instead", site.instead},
                            {"times", site.times},
                            {"in_step", site.inStep},
                            {"segments", site.segments},
                            {"kernels", site.kernels},
                            {"bytes_to_host", site.bytesToHost},
                            {"ops_again", site.opsAgain},
                            {"ms", numberOrNull(site.milliseconds)},
                            {"measured_ms", numberOrNull(site.measuredMs)}};
}

std::string siteText(const BreakSite &site) {
  std::string text = site.file.empty() ? "(place unknown)" : placeText(site.file, site.line, site.column);
  text += ": graph break: " + site.why + "\n";
  if (!site.source.empty())
    text += "    " + site.source + "\n";
  text += "  " + count(site.times, "time") + ", in " + std::to_string(site.inStep) +
          " of them the step waited and went on; " + count(site.segments, "segment") + " compiled for it (" +
          count(site.kernels, "kernel") + " not fused across it), " + count(site.opsAgain, "op") + " computed again, " +
          count(site.bytesToHost, "byte") + " to the host, " + number(site.milliseconds) + " ms" +
          (std::isnan(site.measuredMs) ? "" : "; " + number(site.measuredMs) + " ms of a call, measured") + "\n";
  return text + "  try: " + site.instead + "\n";
}

} // namespace

std::string BreakReport::text() const {
  std::string text = "'" + function + "': " + count(calls, "call") + ", " + std::to_string(callsWithBreaks) +
                     " with graph breaks, " + count(compiled, "compilation") + "\n";
  if (!std::isnan(oneStepMs))
    text += "a call takes " + number(withBreaksMs) + " ms, as one step " + number(oneStepMs) + " ms\n";
  if (sites.empty())
    text += "no graph breaks\n";
  for (const BreakSite &site : sites)
    text += siteText(site);
  for (const RecompileReason &recompile : recompiles)
    text += count(recompile.times, "time") + " " + recompile.reason + "\n";
  return text;
}

std::string BreakReport::json() const {
  llvm::json::Array breaks, again;
  for (const BreakSite &site : sites)
    breaks.push_back(toJson(site));
  for (const RecompileReason &recompile : recompiles)
    again.push_back(llvm::json::Object{{"reason", recompile.reason}, {"times", recompile.times}});
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(llvm::json::Object{{"function", function},
                                                                         {"calls", calls},
                                                                         {"calls_with_breaks", callsWithBreaks},
                                                                         {"compiled", compiled},
                                                                         {"with_breaks_ms", numberOrNull(withBreaksMs)},
                                                                         {"one_step_ms", numberOrNull(oneStepMs)},
                                                                         {"breaks", std::move(breaks)},
                                                                         {"recompiles", std::move(again)}});
  return text;
}

std::string sourceLine(const std::string &file, uint32_t line) {
  std::ifstream stream(file);
  std::string text;
  for (uint32_t i = 0; i < line; ++i)
    if (!std::getline(stream, text))
      return {};
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

} // namespace tcc
