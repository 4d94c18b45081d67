// Profiler: collects the times of instructions and gives them as a Chrome trace. profile_report.h makes a table of
// them.
#pragma once
#include "runtime/error.h"
#include "runtime/instructions/kind.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::runtime {

/// Collects events; give it to Executable::run() for as many steps as wanted.
class Profiler {
public:
  struct Event {
    std::string label;
    std::string category; ///< "kernel", "matmul", "copy", "step"
    int64_t startNs = 0;  ///< steady clock
    int64_t durationNs = 0;
    int32_t stream = 0;
    int64_t flops = 0;
    int64_t bytes = 0;  ///< least memory traffic
    std::string source; ///< "file:line" of the user's code, or empty
    StepPart part = StepPart::kernels;
    DType arithmetic = DType::f32; ///< what it multiplies
  };

  static int64_t now(); ///< steady clock, ns
  void record(Event event) { events.push_back(std::move(event)); }
  void clear() { events.clear(); }
  const std::vector<Event> &all() const { return events; }

  /// Complete events ("ph":"X"), one tid per stream, times in microseconds from the first event; then the names of the
  /// process and of its streams ("ph":"M").
  std::string chromeTrace() const;
  Error writeChromeTrace(const std::string &path) const;

  std::string title = "tcc"; ///< what viewers call the process

private:
  std::vector<Event> events;
};

} // namespace tcc::runtime
