#include "frontend/driver/time_trace.h"
#include "codegen/time_trace.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/TimeProfiler.h"
#include "llvm/Support/raw_ostream.h"

namespace tcc::driver {

TimeTrace::TimeTrace() {
  llvm::timeTraceProfilerInitialize(ThreadTimeTrace::leastMicroseconds, "tcc");
}

TimeTrace::~TimeTrace() {
  if (llvm::timeTraceProfilerEnabled())
    llvm::timeTraceProfilerCleanup();
}

std::string TimeTrace::finish() {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::timeTraceProfilerWrite(stream);
  llvm::timeTraceProfilerCleanup();
  return text.str().str();
}

} // namespace tcc::driver
