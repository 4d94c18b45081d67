#include "runtime/trace.h"
#include "runtime/device/device.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include "runtime/profiler.h"
#include <algorithm>
#include <limits>

namespace tcc::runtime {
namespace {

constexpr size_t mostKept = 400'000; // of events, and of counters: some 100 MB of text

/// Its shortest text has three digits after the point: nanoseconds.
double microseconds(int64_t ns) {
  return static_cast<double>(ns) / 1000.0;
}

Json eventJson(const Trace::Event &event, int row, int64_t origin) {
  Json arguments = Json::object();
  for (const auto &[key, value] : event.arguments)
    std::visit([&, &key = key](const auto &held) { arguments[key] = held; }, value);
  return {{"name", event.name},
          {"cat", event.category},
          {"ph", "X"},
          {"pid", 1},
          {"tid", row},
          {"ts", microseconds(event.startNs - origin)},
          {"dur", microseconds(event.endNs - event.startNs)},
          {"args", arguments}};
}

Json nameJson(const char *what, int row, const std::string &text) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", text}}}};
}

} // namespace

Trace::Trace(std::string title) : title(std::move(title)), rows{"main"} {
  threads[std::this_thread::get_id()] = 1;
}

int Trace::rowOf(const std::string &name) {
  const std::lock_guard lock(mutex);
  const auto known = std::ranges::find(rows, name);
  if (known != rows.end())
    return static_cast<int>(known - rows.begin()) + 1;
  rows.push_back(name);
  return static_cast<int>(rows.size());
}

int Trace::rowOfThread() {
  const std::lock_guard lock(mutex);
  const auto [known, isNew] = threads.try_emplace(std::this_thread::get_id());
  if (isNew) {
    rows.push_back("thread " + std::to_string(threads.size()));
    known->second = static_cast<int>(rows.size());
  }
  return known->second;
}

int Trace::rowOf(const Device &device) {
  return device.sharesHostMemory() ? rowOfThread() : rowOf(device.name());
}

template <typename T>
void Trace::keep(std::vector<T> &list, T one) {
  const std::lock_guard lock(mutex);
  if (list.size() < mostKept)
    list.push_back(std::move(one));
  else
    ++left;
}

void Trace::record(int row, Event event) {
  keep(events, std::pair(row, std::move(event)));
}

void Trace::count(const std::string &counter, int64_t ns, int64_t value) {
  keep(counters, Counted{counter, ns, value});
}

int64_t Trace::leftOut() const {
  const std::lock_guard lock(mutex);
  return left;
}

void Trace::add(const Profiler &profiler, int row) {
  std::vector<int64_t> starts; // of the instructions of a step
  for (const Profiler::Event &event : profiler.all()) {
    const int64_t end = event.startNs + event.durationNs;
    Event made{event.label, event.category, event.startNs, end, {{"flops", event.flops}, {"bytes", event.bytes}}};
    if (!event.source.empty())
      made.arguments.emplace_back("source", event.source);
    record(row, std::move(made));
    if (event.category != "step") {
      starts.push_back(event.startNs);
      continue;
    }
    if (!profiler.memory.empty() && starts.size() == profiler.memory.size()) {
      for (size_t i = 0; i < starts.size(); ++i)
        count("arena", starts[i], profiler.memory[i]);
      count("arena", end, 0);
    }
    starts.clear();
  }
}

std::string Trace::json() const {
  const std::lock_guard lock(mutex);
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const auto &[row, event] : events)
    origin = std::min(origin, event.startNs);
  for (const Counted &counted : counters)
    origin = std::min(origin, counted.ns);

  // 1. Names.
  Json list = Json::array();
  list.push_back(nameJson("process_name", 0, title));
  for (size_t i = 0; i < rows.size(); ++i)
    list.push_back(nameJson("thread_name", static_cast<int>(i) + 1, rows[i]));

  // 2. What happened, in the order of time; of events that begin together the longer one holds the other.
  std::vector<const std::pair<int, Event> *> byTime;
  for (const auto &event : events)
    byTime.push_back(&event);
  std::ranges::stable_sort(byTime, {},
                           [](const auto *event) { return std::pair(event->second.startNs, -event->second.endNs); });
  std::vector<const Counted *> counts;
  for (const Counted &counted : counters)
    counts.push_back(&counted);
  std::ranges::stable_sort(counts, {}, &Counted::ns);
  for (const auto *event : byTime)
    list.push_back(eventJson(event->second, event->first, origin));
  for (const Counted *counted : counts)
    list.push_back({{"name", counted->counter},
                    {"ph", "C"},
                    {"pid", 1},
                    {"ts", microseconds(counted->ns - origin)},
                    {"args", {{"bytes", counted->value}}}});
  return writeJson({{"traceEvents", list}, {"displayTimeUnit", "ms"}});
}

Error Trace::write(const std::string &path) const {
  return writeFileAtomically(path, json());
}

TraceScope::TraceScope(Trace *trace, const char *name, const char *category,
                       std::vector<std::pair<std::string, Trace::Value>> arguments)
    : trace(trace) {
  if (!trace)
    return;
  row = trace->rowOfThread();
  event = {name, category, Profiler::now(), 0, std::move(arguments)};
}

TraceScope::TraceScope(Trace *trace, const std::string &row, const char *name, const char *category,
                       std::vector<std::pair<std::string, Trace::Value>> arguments)
    : trace(trace) {
  if (!trace)
    return;
  this->row = trace->rowOf(row);
  event = {name, category, Profiler::now(), 0, std::move(arguments)};
}

TraceScope::~TraceScope() {
  if (!trace)
    return;
  event.endNs = Profiler::now();
  trace->record(row, std::move(event));
}

} // namespace tcc::runtime
