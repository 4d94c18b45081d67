// RunTrace: the time line of a training run (--profile), written when the run ends, in whichever way it does.
#pragma once
#include "models/options.h"
#include "runtime/trace.h"

#include <optional>

namespace tcc::models {

class RunTrace {
public:
  /// Records nothing without --profile.
  explicit RunTrace(const TrainOptions &options);
  RunTrace(const RunTrace &) = delete;
  RunTrace &operator=(const RunTrace &) = delete;
  /// Writes the file. If it cannot be written, that is printed on stderr and does not fail the run.
  ~RunTrace();

  /// Null where nothing is recorded.
  runtime::Trace *get() { return trace ? &*trace : nullptr; }

private:
  std::string path;
  std::optional<runtime::Trace> trace;
};

} // namespace tcc::models
