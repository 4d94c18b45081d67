// Times of instructions, as a Chrome trace and as a text table.
#pragma once
#include "runtime/error.h"
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
  };

  static int64_t now(); ///< steady clock, ns
  void record(Event event) { events.push_back(std::move(event)); }
  void clear() { events.clear(); }
  const std::vector<Event> &all() const { return events; }

  /// Complete events ("ph":"X"), one tid per stream, times in microseconds from the first event; then the names of the
  /// process and of its streams ("ph":"M").
  std::string chromeTrace() const;
  Error writeChromeTrace(const std::string &path) const;

  /// What a device can do at most, a second; 0: not known.
  struct Limits {
    double bytes = 0, flops = 0;
  };
  /// One row a label, longest first: calls, milliseconds, share of the whole, GB/s, GFLOP/s, and where limits are known
  /// the share of what they allow: the time that the bytes or the flops need at least, beside the time taken. `rows` 0:
  /// all.
  std::string table(size_t rows, const Limits &limits) const;
  std::string table(size_t rows = 0) const { return table(rows, Limits()); }

private:
  std::vector<Event> events;
};

} // namespace tcc::runtime
