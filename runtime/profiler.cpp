#include "runtime/profiler.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

namespace tcc::runtime {
namespace {

struct Row {
  std::string label;
  int64_t calls = 0, nanoseconds = 0, flops = 0, bytes = 0;
};

// UTF-8 has one lead byte a character; columns count characters.
size_t characters(const std::string &text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

} // namespace

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
  // Names for viewers: of the process and of each stream, as metadata events.
  std::set<int32_t> streams;
  for (const Event &event : events)
    streams.insert(event.stream);
  auto name = [&](const char *what, int32_t stream, const std::string &text) {
    list.push_back({{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", stream}, {"args", {{"name", text}}}});
  };
  name("process_name", 0, "tcc");
  for (int32_t stream : streams)
    name("thread_name", stream, "stream " + std::to_string(stream));
  return writeJson({{"traceEvents", list}, {"displayTimeUnit", "ms"}});
}

Error Profiler::writeChromeTrace(const std::string &path) const {
  return writeFileAtomically(path, chromeTrace());
}

std::string Profiler::table(size_t rows, const Limits &limits) const {
  std::map<std::string, Row> byLabel;
  int64_t total = 0;
  for (const Event &event : events) {
    if (event.category == "step")
      continue;
    Row &row = byLabel[event.label];
    row.label = event.label;
    ++row.calls;
    row.nanoseconds += event.durationNs;
    row.flops += event.flops;
    row.bytes += event.bytes;
    total += event.durationNs;
  }
  std::vector<Row> sorted;
  size_t width = 5;
  for (auto &[label, row] : byLabel) {
    width = std::max(width, characters(label));
    sorted.push_back(row);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Row &a, const Row &b) {
    return a.nanoseconds != b.nanoseconds ? a.nanoseconds > b.nanoseconds : a.label < b.label;
  });
  if (rows && sorted.size() > rows)
    sorted.resize(rows);

  char line[160];
  const bool limited = limits.bytes > 0 || limits.flops > 0;
  std::snprintf(line, sizeof line, "%7s %11s %7s %8s %10s%s\n", "calls", "ms", "share", "GB/s", "GFLOP/s",
                limited ? "  of limit" : "");
  std::string text = "label" + std::string(width - 5, ' ') + line;
  for (const Row &row : sorted) {
    const double ns = static_cast<double>(std::max<int64_t>(1, row.nanoseconds));
    std::snprintf(line, sizeof line, "%7lld %11.3f %6.1f%% %8.1f %10.1f\n", static_cast<long long>(row.calls),
                  ns * 1e-6, 100.0 * ns / static_cast<double>(std::max<int64_t>(1, total)),
                  static_cast<double>(row.bytes) / ns, static_cast<double>(row.flops) / ns);
    text += row.label + std::string(width - characters(row.label), ' ') + line;
    if (limited) {
      const double least = std::max(limits.bytes > 0 ? static_cast<double>(row.bytes) / limits.bytes : 0,
                                    limits.flops > 0 ? static_cast<double>(row.flops) / limits.flops : 0);
      std::snprintf(line, sizeof line, " %8.1f%%\n", 100.0 * least * 1e9 / ns);
      text.replace(text.size() - 1, 1, line);
    }
  }
  return text;
}

} // namespace tcc::runtime
