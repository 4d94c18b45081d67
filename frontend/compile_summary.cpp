#include "frontend/compile_summary.h"
#include <cstdlib>

namespace tcc {

CompileSummary summaryOf(const CompileReport &report, const runtime::Executable &executable) {
  const auto countOf = [&](const char *key) {
    const auto known = executable.metadata().find(key);
    return known == executable.metadata().end() ? 0 : std::atoll(known->second.c_str());
  };
  CompileSummary summary;
  summary.capturedOps = report.pipeline.capturedOps;
  summary.kernels = countOf("kernels");
  summary.matmuls = countOf("matmuls");
  summary.arenaBytes = report.pipeline.arenaBytes;
  summary.plannedBytes = executable.plannedBytes();
  summary.recomputedOps = report.pipeline.recomputed.ops;
  summary.recomputedShare = report.pipeline.recomputed.share;
  summary.fromCache = report.fromCache;
  summary.cache = report.cache;
  summary.pipelineMs = report.pipelineMs;
  summary.codegenMs = report.codegenMs;
  return summary;
}

void addPart(const std::string &target, const CompileReport &report, CompileSummary &summary) {
  summary.capturedOps = report.pipeline.capturedOps;
  summary.kernels = report.pipeline.kernels;
  summary.matmuls = report.pipeline.matmuls;
  summary.arenaBytes = report.pipeline.arenaBytes;
  summary.plannedBytes = report.plannedBytes;
  summary.recomputedOps = report.pipeline.recomputed.ops;
  summary.recomputedShare = report.pipeline.recomputed.share;
  summary.fromCache &= report.fromCache;
  summary.cache += (summary.cache.empty() ? "" : "\n") + target + ": " + report.cache;
  summary.pipelineMs += report.pipelineMs;
  summary.codegenMs += report.codegenMs;
  summary.totalMs += report.totalMs;
}

} // namespace tcc
