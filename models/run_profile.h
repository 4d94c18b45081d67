// --profile: where the time of a few of a run's steps goes.
#pragma once
#include "frontend/compile.h"
#include "models/options.h"
#include "models/run_device.h"
#include "models/train_log.h"
#include "runtime/profiler.h"

namespace tcc::models {

class RunProfile {
public:
  /// The log, options and device outlive it.
  RunProfile(const TrainOptions &options, const RunDevice &device, TrainLog &log);

  /// Before step `number` of this process (from 0): steps 3 to 7 are recorded, or the first where there are not so
  /// many.
  void before(int64_t number, Function &step);
  /// Writes the trace and says the table. Throws InputError where the file cannot be written.
  void finish(Function &step);

private:
  const TrainOptions &options;
  const RunDevice &device;
  TrainLog &log;
  runtime::Profiler profiler;
};

} // namespace tcc::models
