// Trace: a time line of a whole process, written as a Chrome trace. It has what each thread did and when, and counters
// over time.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace tcc::runtime {

class Device;
class Profiler;

/// Collects events of any number of threads. Two events of one row must not overlap, unless one lies within the other.
class Trace {
public:
  using Value = std::variant<int64_t, std::string>;
  struct Event {
    std::string name;     ///< what was done; the step or function that it was done for is an argument
    std::string category; ///< "compile", "train", "data", or a kind of instruction ("kernel", "matmul", …)
    int64_t startNs = 0;  ///< of Profiler::now()
    int64_t endNs = 0;
    std::vector<std::pair<std::string, Value>> arguments = {};
  };

  /// `title` is what viewers call the process. The thread that makes the trace has the row "main".
  explicit Trace(std::string title);

  /// The row of this name. If there is none, it is made.
  int rowOf(const std::string &name);
  /// The row of the calling thread.
  int rowOfThread();
  /// The row for instructions that the calling thread starts on a device: the thread's own row, or the device's.
  int rowOf(const Device &device);
  void record(int row, Event event);
  void record(Event event) { record(rowOfThread(), std::move(event)); }
  /// Sets the value of a counter from time `ns` on.
  void count(const std::string &counter, int64_t ns, int64_t value);
  /// Adds the instructions and steps of a profiler to `row`. If the profiler knows the memory in use during each step,
  /// it becomes the counter "arena".
  void add(const Profiler &profiler, int row);

  /// The trace as JSON: complete events ("ph":"X"), counters ("C") and names ("M"), in the order of time. Times are in
  /// microseconds from the first event on.
  std::string json() const;
  Error write(const std::string &path) const;
  /// How many events were not kept, since there were too many.
  int64_t leftOut() const;

private:
  struct Counted {
    std::string counter;
    int64_t ns = 0, value = 0;
  };
  template <typename T>
  void keep(std::vector<T> &list, T one);

  std::string title;
  mutable std::mutex mutex;
  std::vector<std::string> rows; // their names; a row's number is its place + 1
  std::map<std::thread::id, int> threads;
  std::vector<std::pair<int, Event>> events;
  std::vector<Counted> counters;
  int64_t left = 0;
};

/// Records an event of the calling thread that lasts as long as this object. If `trace` is null, it records nothing.
class TraceScope {
public:
  TraceScope(Trace *trace, const char *name, const char *category,
             std::vector<std::pair<std::string, Trace::Value>> arguments = {});
  /// The same in the row with this name, for threads that end before the process does.
  TraceScope(Trace *trace, const std::string &row, const char *name, const char *category,
             std::vector<std::pair<std::string, Trace::Value>> arguments = {});
  TraceScope(const TraceScope &) = delete;
  TraceScope &operator=(const TraceScope &) = delete;
  ~TraceScope();

private:
  Trace *trace;
  int row = 0;
  Trace::Event event;
};

} // namespace tcc::runtime
