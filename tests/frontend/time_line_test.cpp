// FunctionOptions::timeLine: what a function's calls did, in a trace. No MLIR, as in users' files.
#include "runtime/json_reader.h"
#include "runtime/profiler.h"
#include "runtime/trace.h"
#include "tests/frontend/quiet_functions.h"
#include <map>

using namespace tcc;

namespace {

TEST(TimeLine, HasCompilationsAndBreaks) {
  runtime::Trace trace("descent");
  runtime::Profiler profiler;
  FunctionOptions options = quiet();
  options.timeLine = &trace;
  Parameter w("w", {4});
  Function step = compile(
      "descent",
      [&](Tensor x) {
        const Tensor y = tanh(x * (w + 0.5));
        Tensor loss = mean(y * y);
        if (loss.item() + max(y).item() < 100) // two breaks in each call
          loss = loss * 0.5;
        assign(w, w - 0.1 * gradient(loss, std::vector<Tensor>{w})[0]);
        return loss;
      },
      options);
  for (int i = 0; i < 3; ++i) {
    if (i == 2)
      step.profile(&profiler);
    step(sequence({3, 4}, -0.5f, 0.1f));
  }
  trace.add(profiler, trace.rowOfThread());
  const auto json = runtime::parseJson(trace.json(), 1 << 24, "trace");
  ASSERT_TRUE(json) << json.error().message();
  std::map<std::string, int64_t> counts;
  double asked = 0, ran = 0; // in the last call
  for (const runtime::Json &event : json->at("traceEvents")) {
    ++counts[event.value("name", "")];
    if (event.value("name", "") == "graph break") {
      EXPECT_NE(event["args"].value("source", "").find("time_line_test.cpp:"), std::string::npos);
      EXPECT_EQ(event["args"].value("why", ""), "`item()` asks for a value");
      asked = event.value("ts", 0.0);
    } else if (event.value("cat", "") == "step" && ran == 0) {
      ran = event.value("ts", 0.0);
    }
  }
  const BreakReport report = step.report();
  ASSERT_EQ(report.sites.size(), 2u);
  EXPECT_EQ(counts["graph break"], report.sites[0].times + report.sites[1].times);
  EXPECT_EQ(counts["graph break"], 6);
  EXPECT_EQ(counts["compile"], report.compiled);
  EXPECT_EQ(counts["load"], report.compiled);
  EXPECT_GT(asked, ran) << "the step runs as far as the first value needs before the second one is asked for";
}

TEST(TimeLine, SaysWhyAStepIsCompiledAgain) {
  runtime::Trace trace("twice");
  FunctionOptions options = quiet();
  options.timeLine = &trace;
  Function twice = compile("twice", [](Tensor x) { return x + x; }, options);
  twice(sequence({3}, 0, 1));
  twice(sequence({4}, 0, 1));
  EXPECT_NE(trace.json().find(R"("why":"recompiled: arg0)"), std::string::npos) << trace.json();
}

} // namespace
