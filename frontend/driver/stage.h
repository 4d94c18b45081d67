// Stage: an executable with the memory of its inputs, states and outputs, to be run again and again.
#pragma once
#include "frontend/driver/execution.h"

namespace tcc::driver {

/// Values by name that several forms of one step share. Each form begins with what the form before left in the states.
struct SharedTensors {
  std::map<std::string, Array> inputs;
  std::map<std::string, State> states;
};

class Stage {
public:
  /// Values of the same name, shape and type are taken from `shared`, and new ones are put there; null: nothing is
  /// shared. `timeLine` gets an event for each run, if it is not null.
  Stage(runtime::Executable &executable, const RunValues &values, uint64_t seed, SharedTensors *shared = nullptr,
        runtime::Trace *timeLine = nullptr);

  /// The next run, on the host's memory; `recorder` may be null. What the step prints is printed. Throws Error.
  void step(runtime::Profiler *recorder);
  /// The same as a trainer runs it, for timings: on a device with memory of its own the states stay there, and the run
  /// is waited for, but outputs come to the host when they are asked for.
  void timedStep(runtime::Profiler *recorder);
  /// Runs until caches, clocks and pages have settled.
  void warmUp();
  /// The milliseconds of so many runs.
  std::vector<double> times(int64_t runs, runtime::Profiler *recorder);

  /// Prints the scalar results: "run 3: loss 1.25".
  void printScalars() const;
  /// The results, then the states.
  std::vector<NamedArray> results() const;

private:
  void nextInputs();

  runtime::Executable &executable;
  const runtime::Plan &plan;
  const RunValues &values;
  uint64_t seed;
  runtime::Trace *timeLine;
  std::vector<Array> inputs, outputs;
  std::vector<State> states;
  int64_t run = 0;
};

} // namespace tcc::driver
