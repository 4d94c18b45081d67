// LLVM writes its profile as JSON, with times in whole microseconds since it began and a tid for each thread of the
// system. Here it becomes events of a trace: steps of the compilation keep their names, a pass has its own.
#include "codegen/time_trace.h"
#include "runtime/json_reader.h"
#include "runtime/profiler.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>

namespace tcc {

static std::atomic<bool> isBusy = false; // LLVM collects the threads of a process in one list

TimeTrace::TimeTrace(runtime::Trace *trace, std::string name,
                     std::vector<std::pair<std::string, runtime::Trace::Value>> arguments)
    : trace(trace) {
  if (llvm::timeTraceProfilerEnabled()) { // what happens now is recorded by the one around this
    this->trace = nullptr;
    return;
  }
  event = {std::move(name), "compile", runtime::Profiler::now(), 0, std::move(arguments)};
  isRecorded = !isBusy.exchange(true);
  if (!isRecorded)
    return;
  // LLVM's times are cut to microseconds. Beginning with a new one, none of them lies outside of this event.
  originNs = event.startNs + 999 - (event.startNs + 999) % 1000;
  while (runtime::Profiler::now() < originNs) {
  }
  llvm::timeTraceProfilerInitialize(ThreadTimeTrace::leastMicroseconds, "tcc");
}

std::string TimeTrace::finish() {
  if (std::exchange(isFinished, true))
    return {};
  event.endNs = runtime::Profiler::now();
  llvm::SmallString<0> text;
  if (isRecorded) {
    llvm::raw_svector_ostream stream(text);
    llvm::timeTraceProfilerWrite(stream);
    llvm::timeTraceProfilerCleanup();
    isBusy = false;
  }
  std::string profile = text.str().str();
  if (trace) {
    trace->record(event);
    if (isRecorded)
      addTo(*trace, profile);
  }
  return profile;
}

void TimeTrace::addTo(runtime::Trace &trace, const std::string &profile) const {
  constexpr int64_t most = int64_t{1} << 28;
  const auto json = runtime::parseJson(profile, most, "LLVM's time profile");
  if (!json)
    return;
  std::map<int64_t, int> rows = {{static_cast<int64_t>(llvm::get_threadid()), trace.rowOfThread()}}; // by LLVM's tid
  for (const runtime::Json &one : json->at("traceEvents")) {
    const std::string name = one.value("name", "");
    if (one.value("ph", "") != "X" || llvm::StringRef(name).starts_with("Total ")) // those are sums, at no time
      continue;
    const auto [row, isNew] = rows.try_emplace(one.value("tid", int64_t{0}));
    if (isNew)
      row->second = trace.rowOf("code generation " + std::to_string(rows.size() - 1));
    const int64_t start = originNs + 1000 * one.value("ts", int64_t{0});
    runtime::Trace::Event made{name, "compile", start, start + 1000 * one.value("dur", int64_t{0})};
    const auto arguments = one.find("args");
    const std::string detail = arguments == one.end() ? "" : arguments->value("detail", "");
    if (name == "pass") {
      made.name = detail;
      made.category = "pass";
    } else if (!detail.empty()) {
      made.arguments.emplace_back("detail", detail);
    }
    trace.record(row->second, std::move(made));
  }
}

} // namespace tcc
