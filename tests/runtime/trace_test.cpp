#include "runtime/json_reader.h"
#include "runtime/profiler.h"
#include "runtime/trace.h"
#include "tests/files.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

Profiler sample() {
  Profiler profiler;
  profiler.record({"gelu \"h\"", "kernel", 1000, 2000, 10, 4000, "model.cpp:41"});
  profiler.record({"x w", "matmul", 3000, 6000, 12000, 600, ""});
  profiler.record({"x w", "matmul", 9000, 2001, 4000, 200, ""});
  profiler.record({"step", "step", 1000, 10001, 0, 0, ""});
  return profiler;
}

std::vector<Json> eventsOf(const Trace &trace, const char *phase) {
  const auto json = parseJson(trace.json(), 1 << 24, "trace");
  EXPECT_TRUE(json);
  std::vector<Json> events;
  for (const Json &event : json->at("traceEvents"))
    if (event.at("ph") == phase)
      events.push_back(event);
  return events;
}

TEST(Trace, HoldsCompleteEventsInTheOrderOfTime) {
  Trace trace("model.graph");
  trace.add(sample(), trace.rowOf("cuda:0"));
  trace.record({"load", "compile", 500, 900, {{"function", "f"}, {"step", int64_t{3}}}});
  const std::vector<Json> events = eventsOf(trace, "X");
  std::vector<std::string> names;
  for (const Json &event : events)
    names.push_back(event.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"load", "step", "gelu \"h\"", "x w", "x w"}))
      << "of those that begin together the longer one is first";
  EXPECT_EQ(events[0].at("ts"), 0.0);
  EXPECT_EQ(events[0].at("dur"), 0.4); // microseconds
  EXPECT_EQ(events[0].at("args").dump(), R"({"function":"f","step":3})");
  EXPECT_EQ(events[0].at("tid"), 1);
  EXPECT_EQ(events[2].at("tid"), 2);
  EXPECT_EQ(events[2].at("args").at("source"), "model.cpp:41");
  EXPECT_EQ(events[4].at("ts"), 8.5);
  EXPECT_EQ(events[4].at("dur").dump(), "2.001") << "nanoseconds are three digits";
  const std::vector<Json> rows = eventsOf(trace, "M");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("args").at("name"), "model.graph");
  EXPECT_EQ(rows[1].at("args").at("name"), "main");
  EXPECT_EQ(rows[2].at("args").at("name"), "cuda:0");
}

TEST(Trace, MemoryIsACounter) {
  Profiler profiler = sample();
  profiler.memory = {100, 300, 200};
  Trace trace("x");
  trace.add(profiler, 1);
  std::vector<std::pair<double, int64_t>> counted;
  for (const Json &event : eventsOf(trace, "C"))
    counted.emplace_back(event.at("ts"), event.at("args").at("bytes"));
  const std::vector<std::pair<double, int64_t>> expected = {{0, 100}, {2, 300}, {8, 200}, {10.001, 0}};
  EXPECT_EQ(counted, expected);
  profiler.memory = {100, 300}; // of another plan
  Trace other("x");
  other.add(profiler, 1);
  EXPECT_TRUE(eventsOf(other, "C").empty());
}

TEST(Trace, ThreadsHaveRowsOfTheirOwn) {
  Trace trace("x");
  {
    const TraceScope outer(&trace, "outer", "train");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int64_t step = 0; step < 100; ++step)
          const TraceScope scope(&trace, "inner", "train", {{"step", step}});
      });
    for (std::thread &thread : threads)
      thread.join();
    std::thread([&] { const TraceScope scope(&trace, "batches", "read", "data"); }).join();
  }
  const TraceScope nothing(nullptr, "none", "train");
  std::map<int, std::pair<int, double>> rows; // events, and where the last one ended
  for (const Json &event : eventsOf(trace, "X")) {
    auto &[count, end] = rows[event.at("tid")];
    ++count;
    if (event.at("name") == "inner") {
      EXPECT_GE(event.at("ts").get<double>(), end);
    }
    end = event.at("ts").get<double>() + event.at("dur").get<double>() - 1e-6;
  }
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[1].first, 1);
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto &row) { return row.second.first == 100; }), 4);
}

TEST(Trace, KeepsTheFirstEventsOfALongRun) {
  Trace trace("x");
  constexpr int64_t many = 400'003;
  for (int64_t i = 0; i < many; ++i)
    trace.record(1, {"e", "train", i, i + 1});
  EXPECT_EQ(trace.leftOut(), 3);
}

TEST(Trace, EmptyOnesPrintAndBadPlacesAreErrors) {
  const Trace trace("\xff");
  EXPECT_TRUE(parseJson(trace.json(), 1 << 20, "trace"));
  EXPECT_NE(trace.write("/no/such/folder/trace.json").message(), "");
}

} // namespace
} // namespace tcc::runtime
