// Threads of a compilation in LLVM's time profile (-ftime-trace), where one is recorded.
#pragma once
#include "llvm/Support/TimeProfiler.h"

namespace tcc {

/// Lives in a thread that works for another one. `isRecorded`: whether that other one's time is recorded, asked there.
class ThreadTimeTrace {
public:
  explicit ThreadTimeTrace(bool isRecorded) : isRecorded(isRecorded && !llvm::timeTraceProfilerEnabled()) {
    if (this->isRecorded)
      llvm::timeTraceProfilerInitialize(leastMicroseconds, "tcc");
  }
  ThreadTimeTrace(const ThreadTimeTrace &) = delete;
  ThreadTimeTrace &operator=(const ThreadTimeTrace &) = delete;
  ~ThreadTimeTrace() {
    if (isRecorded)
      llvm::timeTraceProfilerFinishThread();
  }

  /// Shorter events are counted in the totals alone.
  static constexpr unsigned leastMicroseconds = 20;

private:
  bool isRecorded;
};

} // namespace tcc
