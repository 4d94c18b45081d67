// One step of an executable over Arrays and States.
#pragma once
#include "frontend/array.h"
#include "runtime/executable.h"
#include <optional>

namespace tcc {

/// Runs a step on the host's own memory: results get memory of their own, states are updated in place.
runtime::Expected<std::vector<Array>> runStepInPlace(runtime::Executable &executable, std::span<const State> states,
                                                     std::span<const runtime::ConstTensorRef> inputs,
                                                     runtime::Profiler *profiler);

/// The part of a step that is to run next: from the instruction that `step` has reached to the one before `end`. It
/// gives the first `count` results.
struct StepPartWish {
  runtime::PartialStep &step;
  size_t end, count;
};

/// Goes on with a step on a device with memory of its own. States live there; results arrive when they are read. Gives
/// nothing if another step has used the device meanwhile.
runtime::Expected<std::optional<std::vector<Array>>> startStepPart(runtime::Executable &executable,
                                                                   std::span<const State> states,
                                                                   std::span<const runtime::ConstTensorRef> inputs,
                                                                   StepPartWish wish, runtime::Profiler *profiler,
                                                                   bool checked);

/// A whole step, wherever the executable runs.
runtime::Expected<std::vector<Array>> runStep(runtime::Executable &executable, std::span<const State> states,
                                              std::span<const Array> inputs);

} // namespace tcc
