#include "runtime/json_reader.h"
#include "runtime/profiler.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

Profiler sample() {
  Profiler profiler;
  profiler.record({"gelu \"h\"", "kernel", 1000, 2000, 0, 10, 4000, "model.cpp:41"});
  profiler.record({"x w", "matmul", 3000, 6000, 0, 12000, 600, ""});
  profiler.record({"x w", "matmul", 9000, 2000, 1, 4000, 200, ""});
  profiler.record({"step", "step", 1000, 10000, 0, 0, 0, ""});
  return profiler;
}

TEST(Profiler, chromeTraceHoldsCompleteEvents) {
  const auto json = parseJson(sample().chromeTrace(), 1 << 20, "trace");
  ASSERT_TRUE(json);
  const Json &events = json->at("traceEvents");
  ASSERT_EQ(events.size(), 4u + 3);
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].at("ph"), i < 4 ? "X" : "M");
  EXPECT_EQ(events[4].at("name"), "process_name");
  EXPECT_EQ(events[4].at("args").at("name"), "tcc");
  EXPECT_EQ(events[6].at("name"), "thread_name");
  EXPECT_EQ(events[6].at("tid"), 1);
  EXPECT_EQ(events[6].at("args").at("name"), "stream 1");
  EXPECT_EQ(events[0].at("name"), "gelu \"h\"");
  EXPECT_EQ(events[0].at("ts"), 0.0);
  EXPECT_EQ(events[0].at("dur"), 2.0); // microseconds
  EXPECT_EQ(events[0].at("args").at("source"), "model.cpp:41");
  EXPECT_EQ(events[2].at("tid"), 1);
  EXPECT_EQ(events[2].at("ts"), 8.0);
}

TEST(Profiler, memoryIsACounter) {
  Profiler profiler = sample();
  profiler.memory = {100, 300, 200};
  const auto json = parseJson(profiler.chromeTrace(), 1 << 20, "trace");
  ASSERT_TRUE(json);
  std::vector<std::pair<double, int64_t>> counted;
  for (const Json &event : json->at("traceEvents"))
    if (event.at("ph") == "C")
      counted.emplace_back(event.at("ts"), event.at("args").at("bytes"));
  const std::vector<std::pair<double, int64_t>> expected = {{0, 100}, {2, 300}, {8, 200}, {10, 0}};
  EXPECT_EQ(counted, expected);
  profiler.memory = {100, 300}; // of another plan
  EXPECT_EQ(profiler.chromeTrace(), sample().chromeTrace());
}

TEST(Profiler, emptyProfilesPrint) {
  Profiler profiler;
  EXPECT_TRUE(parseJson(profiler.chromeTrace(), 1 << 20, "trace"));
}

} // namespace
} // namespace tcc::runtime
