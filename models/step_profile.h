// --profile of a training run: where the time of its steps went.
#pragma once
#include "frontend/compile.h"
#include "runtime/profiler.h"
#include "runtime/trace.h"

#include <cstdint>
#include <string>

namespace tcc::models {

/// Records some steps of a run, the first one, which is cold, left out.
class StepProfile {
public:
  /// `timeLine` gets what ran; null: steps are recorded only if `isShown`.
  StepProfile(runtime::Trace *timeLine, bool isShown) : timeLine(timeLine), isShown(isShown) {}

  /// Before each step of the process, counted from 0.
  void beforeStep(Function &step, int64_t index);
  /// Adds the steps to the time line and gives their table, or why there is none; empty where there is no time line, or
  /// it has them already.
  std::string finish(Function &step);
  /// What was recorded.
  const runtime::Profiler &recorded() const { return profiler; }

private:
  runtime::Trace *timeLine;
  bool isShown;
  runtime::Profiler profiler;
};

} // namespace tcc::models
