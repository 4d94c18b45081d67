// The time of a compilation by LLVM's profiler (-ftime-trace): phases and passes of this project and of LLVM, in all
// threads that compile.
#pragma once
#include "runtime/trace.h"
#include "llvm/Support/TimeProfiler.h"

namespace tcc {

/// Records from its construction on what the calling thread does, and threads that work for it (ThreadTimeTrace). One
/// in a process records at a time: one in another thread has its own event alone, and one within another is nothing.
class TimeTrace {
public:
  /// What is recorded goes into `trace`, if there is one, within an event of this name; the rows of the other threads
  /// are "code generation 1" and so on.
  explicit TimeTrace(runtime::Trace *trace = nullptr, std::string name = "compile",
                     std::vector<std::pair<std::string, runtime::Trace::Value>> arguments = {});
  TimeTrace(const TimeTrace &) = delete;
  TimeTrace &operator=(const TimeTrace &) = delete;
  ~TimeTrace() { finish(); }

  /// Ends the recording and gives it as a Chrome trace of its own, as LLVM writes it; empty where another one recorded.
  std::string finish();

private:
  void addTo(runtime::Trace &trace, const std::string &profile) const;

  runtime::Trace *trace;
  runtime::Trace::Event event;
  bool isRecorded = false, isFinished = false;
  int64_t originNs = 0; ///< where LLVM's time begins
};

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
