#include "frontend/compile_summary.h"
#include <cstdlib>

namespace tcc {

/// What a report says of one compilation, whatever becomes of it.
static void add(const CompileReport &report, CompileSummary &summary) {
  summary.capturedOps = report.pipeline.capturedOps;
  summary.kernels = report.pipeline.kernels;
  summary.matmuls = report.pipeline.matmuls;
  summary.arenaBytes = report.pipeline.arenaBytes;
  summary.recomputedOps = report.pipeline.recomputed.ops;
  summary.recomputedShare = report.pipeline.recomputed.share;
  summary.pipelineMs += report.pipelineMs;
  summary.codegenMs += report.codegenMs;
  summary.tuning = report.tuned;
}

CompileSummary summaryOf(const CompileReport &report, const runtime::Executable &executable) {
  const auto countOf = [&](const char *key) {
    const auto known = executable.metadata().find(key);
    return known == executable.metadata().end() ? 0 : std::atoll(known->second.c_str());
  };
  CompileSummary summary;
  add(report, summary);
  summary.kernels = countOf("kernels");
  summary.matmuls = countOf("matmuls");
  summary.plannedBytes = executable.plannedBytes();
  summary.fromCache = report.fromCache;
  summary.cache = report.cache;
  return summary;
}

void addPart(const std::string &target, const CompileReport &report, CompileSummary &summary) {
  const bool isFirst = summary.cache.empty();
  add(report, summary);
  summary.plannedBytes = report.plannedBytes;
  summary.fromCache = report.fromCache && (isFirst || summary.fromCache);
  summary.cache += (isFirst ? "" : "\n") + target + ": " + report.cache;
  summary.totalMs += report.totalMs;
}

} // namespace tcc
