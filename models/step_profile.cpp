#include "models/step_profile.h"
#include "runtime/executable_limits.h"
#include "runtime/memory_parts.h"
#include "runtime/profile_report.h"

namespace tcc::models {

constexpr int64_t firstRecorded = 1, mostRecorded = 20; // steps: a long run's would take gigabytes

void StepProfile::beforeStep(Function &step, int64_t index) {
  if (file.empty() && !isShown)
    return;
  if (index == firstRecorded)
    step.profile(&profiler);
  else if (index == firstRecorded + mostRecorded)
    step.profile(nullptr);
}

std::string StepProfile::finish(Function &step) {
  if (file.empty() && !isShown)
    return {};
  step.profile(nullptr);
  if (file.empty())
    return {};
  const std::shared_ptr<runtime::Executable> executable = step.executable();
  profiler.memory = runtime::arenaInUse(executable->plan());
  std::string problem;
  if (runtime::Error error = profiler.writeChromeTrace(file))
    problem = "warning: " + error.message() + "\n";
  std::string table = runtime::profileReport(profiler, runtime::limitsOf(*executable));
  if (table.empty())
    return problem + "no profile: the first step is left out, and there was no other";
  table.pop_back(); // the log ends lines itself
  return problem + table;
}

} // namespace tcc::models
