#include "models/step_profile.h"
#include "runtime/executable_limits.h"
#include "runtime/memory_parts.h"
#include "runtime/profile_report.h"

#include <utility>

namespace tcc::models {

constexpr int64_t firstRecorded = 1, mostRecorded = 20; // steps: a long run's would take gigabytes

void StepProfile::beforeStep(Function &step) {
  const int64_t index = started++;
  if (!timeLine && !isShown)
    return;
  if (index == firstRecorded)
    step.profile(&profiler);
  else if (index == firstRecorded + mostRecorded)
    step.profile(nullptr);
}

std::string StepProfile::finish(Function &step) {
  if (!timeLine && !isShown)
    return {};
  step.profile(nullptr);
  const std::shared_ptr<runtime::Executable> executable = step.executable();
  runtime::Trace *line = std::exchange(timeLine, nullptr);
  if (!line || !executable)
    return {};
  profiler.memory = runtime::arenaInUse(executable->plan());
  line->add(profiler, line->rowOf(*executable->device()));
  std::string table = runtime::profileReport(profiler, runtime::limitsOf(*executable));
  if (table.empty())
    return "no profile: the first step is left out, and there was no other";
  table.pop_back(); // the log ends lines itself
  return table;
}

} // namespace tcc::models
