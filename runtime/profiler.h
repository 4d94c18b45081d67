// Profiler: collects the times of instructions. profile_report.h makes a table of them, trace.h a time line.
#pragma once
#include "runtime/error.h"
#include "runtime/instructions/kind.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::runtime {

/// Collects events. Pass the same one to Executable::run() for each step to be profiled.
class Profiler {
public:
  struct Event {
    std::string label;
    /// KindWords::category of the instruction ("kernel", "matmul", …), or "step" for the event of the whole step.
    std::string category;
    int64_t startNs = 0; ///< of now()
    int64_t durationNs = 0;
    int64_t flops = 0;
    int64_t bytes = 0;                 ///< least memory traffic: each operand read once, each result written once
    std::string source;                ///< "file:line" of the user's code, or empty
    StepPart part = StepPart::kernels; ///< which part of the step the report counts it to
    /// The type that it multiplies. It decides which of the machine's limits the time is compared with.
    DType arithmetic = DType::f32;
  };

  static int64_t now(); ///< the steady clock, in nanoseconds
  void record(Event event) { events.push_back(std::move(event)); }
  void clear() { events.clear(); }
  const std::vector<Event> &all() const { return events; }

  /// Bytes of the arena in use over each instruction of a step, in order (arenaInUse); empty where they are not known.
  /// A step that does not have exactly one event for each instruction, as one with loops, gets no counter.
  std::vector<int64_t> memory;

private:
  std::vector<Event> events;
};

} // namespace tcc::runtime
