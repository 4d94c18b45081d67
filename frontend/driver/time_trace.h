// -ftime-trace: where the time of a compilation goes, as a Chrome trace by LLVM's profiler.
#pragma once
#include <string>

namespace tcc::driver {

/// Records from its construction on, passes of LLVM and of this project, in all threads that compile.
class TimeTrace {
public:
  TimeTrace();
  TimeTrace(const TimeTrace &) = delete;
  TimeTrace &operator=(const TimeTrace &) = delete;
  ~TimeTrace();

  /// Ends the recording and gives it as JSON.
  std::string finish();
};

} // namespace tcc::driver
