#include "runtime/profiler.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include <algorithm>
#include <chrono>
#include <set>

namespace tcc::runtime {
int64_t Profiler::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string Profiler::chromeTrace() const {
  int64_t origin = 0;
  if (!events.empty())
    origin = std::min_element(events.begin(), events.end(), [](const Event &a, const Event &b) {
               return a.startNs < b.startNs;
             })->startNs;
  Json list = Json::array();
  for (const Event &event : events) {
    Json args = {{"flops", event.flops}, {"bytes", event.bytes}};
    if (!event.source.empty())
      args["source"] = event.source;
    list.push_back({{"name", event.label},
                    {"cat", event.category},
                    {"ph", "X"},
                    {"pid", 1},
                    {"tid", event.stream},
                    {"ts", static_cast<double>(event.startNs - origin) * 1e-3},
                    {"dur", static_cast<double>(event.durationNs) * 1e-3},
                    {"args", args}});
  }
  std::vector<const Event *> step;
  const auto count = [&](int64_t ns, int64_t bytes) {
    list.push_back({{"name", "arena"},
                    {"ph", "C"},
                    {"pid", 1},
                    {"ts", static_cast<double>(ns - origin) * 1e-3},
                    {"args", {{"bytes", bytes}}}});
  };
  for (const Event &event : events) {
    if (event.category != "step") {
      step.push_back(&event);
      continue;
    }
    if (!memory.empty() && step.size() == memory.size()) {
      for (size_t i = 0; i < step.size(); ++i)
        count(step[i]->startNs, memory[i]);
      count(event.startNs + event.durationNs, 0);
    }
    step.clear();
  }
  // Names for viewers: of the process and of each stream, as metadata events.
  std::set<int32_t> streams;
  for (const Event &event : events)
    streams.insert(event.stream);
  auto name = [&](const char *what, int32_t stream, const std::string &text) {
    list.push_back({{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", stream}, {"args", {{"name", text}}}});
  };
  name("process_name", 0, title);
  for (int32_t stream : streams)
    name("thread_name", stream, "stream " + std::to_string(stream));
  return writeJson({{"traceEvents", list}, {"displayTimeUnit", "ms"}});
}

Error Profiler::writeChromeTrace(const std::string &path) const {
  return writeFileAtomically(path, chromeTrace());
}

} // namespace tcc::runtime
