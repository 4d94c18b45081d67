// --profile of a training run: where the time of its steps went.
#pragma once
#include "frontend/compile.h"
#include "runtime/profiler.h"

#include <cstdint>
#include <string>

namespace tcc::models {

/// Records some steps of a run, the first one, which is cold, left out.
class StepProfile {
public:
  /// `file` gets a Chrome trace, in which `title` names the run; empty: steps are recorded only if `isShown`.
  StepProfile(std::string file, std::string title, bool isShown) : file(std::move(file)), isShown(isShown) {
    profiler.title = std::move(title);
  }

  /// Before each step of the process, counted from 0.
  void beforeStep(Function &step, int64_t index);
  /// Writes the trace and gives the table, or why there is none, and why the file could not be written, if so: no
  /// reason to lose a run. Empty where nothing was asked for.
  std::string finish(Function &step);
  /// What was recorded.
  const runtime::Profiler &recorded() const { return profiler; }

private:
  std::string file;
  bool isShown;
  runtime::Profiler profiler;
};

} // namespace tcc::models
