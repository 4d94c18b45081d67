#include "models/run_trace.h"

#include <cstdio>
#include <fmt/format.h>

namespace tcc::models {

RunTrace::RunTrace(const TrainOptions &options) : path(options.profileFile) {
  if (!path.empty())
    trace.emplace(fmt::format("{} on {}", options.model, fmt::join(options.dataFiles, ", ")));
}

RunTrace::~RunTrace() {
  if (!trace)
    return;
  if (const runtime::Error problem = trace->write(path))
    fmt::print(stderr, "warning: --profile: {}\n", problem.message());
  if (trace->leftOut() > 0)
    fmt::print(stderr,
               "warning: --profile: the last {} events of the run are not in the trace, which has the first "
               "ones\n",
               trace->leftOut());
}

} // namespace tcc::models
