#include "models/run_profile.h"
#include "models/input_error.h"
#include "runtime/device/limits.h"

#include <fmt/format.h>

namespace tcc::models {

RunProfile::RunProfile(const TrainOptions &options, const RunDevice &device, TrainLog &log)
    : options(options), device(device), log(log) {}

void RunProfile::before(int64_t number, Function &step) {
  constexpr int64_t settled = 3, recorded = 5;
  if (options.profileFile.empty())
    return;
  const int64_t first = options.schedule.length.steps.value_or(settled + 1) > settled ? settled : 0;
  if (number == first)
    step.profile(&profiler);
  else if (number == first + recorded)
    step.profile(nullptr);
}

void RunProfile::finish(Function &step) {
  constexpr size_t rows = 24;
  if (options.profileFile.empty())
    return;
  step.profile(nullptr);
  if (runtime::Error error = profiler.writeChromeTrace(options.profileFile))
    throw InputError(error.message());
  const runtime::DeviceLimits limits =
      device.isGpu() ? runtime::measureLimits(device.device, options.products) : runtime::DeviceLimits();
  if (device.isGpu())
    log.message(fmt::format("limits of {}: a copy moves {:.1f} GB/s, products make {:.2f} TFLOP/s",
                            device.device->name(), limits.bytesPerSecond / 1e9, limits.flopsPerSecond / 1e12));
  log.message(profiler.table(rows, {limits.bytesPerSecond, limits.flopsPerSecond}));
  log.message(fmt::format("wrote the profile to {}", options.profileFile));
}

} // namespace tcc::models
