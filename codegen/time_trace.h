// TimeTrace: the time of a compilation, measured by LLVM's profiler (-ftime-trace). It has phases and passes of this
// project and of LLVM, in all threads that compile.
#pragma once
#include "runtime/trace.h"
#include "llvm/Support/TimeProfiler.h"

namespace tcc {

/// Records from its construction on what the calling thread does, and the threads that work for it (ThreadTimeTrace).
/// Only one object in a process records at a time. Meanwhile an object in another thread gives only its own event, and
/// one that is made within the recording does nothing.
class TimeTrace {
public:
  /// If `trace` is not null, what is recorded is added to it, within an event of this name. The rows of the other
  /// threads are called "code generation 1" and so on.
  explicit TimeTrace(runtime::Trace *trace = nullptr, std::string name = "compile",
                     std::vector<std::pair<std::string, runtime::Trace::Value>> arguments = {});
  TimeTrace(const TimeTrace &) = delete;
  TimeTrace &operator=(const TimeTrace &) = delete;
  ~TimeTrace() { finish(); }

  /// Ends the recording and gives it as a Chrome trace, as LLVM writes it; empty if another object was recording.
  std::string finish();

private:
  void addTo(runtime::Trace &trace, const std::string &profile) const;

  runtime::Trace *trace;
  runtime::Trace::Event event;
  bool isRecorded = false, isFinished = false;
  int64_t originNs = 0; ///< where LLVM's time begins
};

/// To be made in a thread that works for another thread. `isRecorded` says whether the other thread is recorded.
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

  /// Events that are shorter count only in the totals.
  static constexpr unsigned leastMicroseconds = 20;

private:
  bool isRecorded;
};

} // namespace tcc
