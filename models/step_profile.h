// --profile of a training run: what the time of its steps was spent on.
#pragma once
#include "frontend/compile.h"
#include "runtime/profiler.h"
#include "runtime/trace.h"

#include <cstdint>
#include <string>

namespace tcc::models {

/// Records some steps of a run. The first step is left out, since its caches are cold.
class StepProfile {
public:
  /// `timeLine` gets what ran; null: steps are recorded only if `isShown`.
  StepProfile(runtime::Trace *timeLine, bool isShown) : timeLine(timeLine), isShown(isShown) {}

  /// To be called before each step that the process starts.
  void beforeStep(Function &step);
  /// Adds the steps to the time line and gives their table, or why there is none; empty where there is no time line, or
  /// it has them already.
  std::string finish(Function &step);
  /// What was recorded.
  const runtime::Profiler &recorded() const { return profiler; }

private:
  runtime::Trace *timeLine;
  bool isShown;
  int64_t started = 0; // steps of the process; on a GPU more than have ended
  runtime::Profiler profiler;
};

} // namespace tcc::models
