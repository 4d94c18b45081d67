#include "models/train_log.h"
#include "test_files.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tcc::models {
namespace {

using Json = nlohmann::ordered_json;

/// A log whose progress goes to a file.
struct LogToFile {
  TemporaryFolder folder;
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> stream{std::fopen(folder.path("progress").c_str(), "w"),
                                                          std::fclose};
  TrainLog::Options options() const {
    TrainLog::Options options;
    options.length.steps = 4;
    options.jsonFile = folder.path("log.jsonl");
    options.progress = stream.get();
    return options;
  }
  std::string progress() const { return readAll(folder.path("progress")); }
  std::vector<Json> json() const {
    std::vector<Json> lines;
    std::istringstream text(readAll(folder.path("log.jsonl")));
    for (std::string line; std::getline(text, line);)
      lines.push_back(Json::parse(line));
    return lines;
  }
};

TEST(TrainLog, writesOneObjectALine) {
  LogToFile run;
  TrainLog log(run.options());
  log.step({.step = 0,
            .loss = 5.5,
            .ms = 100,
            .tokensPerSecond = 2000,
            .learningRate = 0.5,
            .norm = 2,
            .tokens = 64,
            .elapsed = 0.25});
  log.step({.step = 1, .loss = NAN, .skipped = 1, .validationLoss = 3.5});
  RunSummary summary;
  summary.model = "baby";
  summary.plannedBytes = 123;
  log.finish(summary, 1);
  std::vector<Json> lines = run.json();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].dump(), R"({"step":0,"loss":5.5,"ms":100.0,"tokens_per_second":2000.0,"lr":0.5,"norm":2.0,)"
                             R"("tokens":64,"elapsed_s":0.25,"skipped":0})");
  EXPECT_TRUE(lines[1]["loss"].is_null()); // JSON has no NaN
  EXPECT_EQ(lines[1]["skipped"], 1);
  EXPECT_EQ(lines[1]["val_loss"], 3.5);
  std::vector<std::string> keys;
  for (const auto &[key, value] : lines[2].items())
    keys.push_back(key);
  EXPECT_EQ(
      keys,
      (std::vector<std::string>{
          "model",          "params",     "batch",        "seq",       "dtype",      "target",     "tokens_per_second",
          "step_ms_median", "mfu",        "first_step_s", "compile_s", "cache",      "loss_first", "loss_last",
          "planned_bytes",  "peak_bytes", "kernels",      "matmuls",   "recompiles", "threads"}));
  EXPECT_EQ(lines[2]["planned_bytes"], 123);
  EXPECT_TRUE(lines[2]["mfu"].is_null());
}

TEST(TrainLog, jsonIsThereAfterEachStep) {
  LogToFile run;
  TrainLog log(run.options());
  log.step({.step = 0, .loss = 5.5, .elapsed = 0.1});
  EXPECT_EQ(run.json().size(), 1u); // a run that is killed keeps its lines
}

TEST(TrainLog, plainLinesOffATerminal) {
  LogToFile run;
  TrainLog log(run.options());
  log.compiled({812, 61, 42, 12400000, 1.9, "miss"});
  for (int64_t step = 0; step < 3; ++step)
    log.step({.step = step,
              .loss = 4.0 - double(step),
              .ms = 500,
              .elapsed = 0.5 * double(step + 1),
              .averageTokensPerSecond = 12345.6,
              .machineShare = 0.42,
              .plannedBytes = 12400000,
              .countedBytes = 12300000});
  log.finish({.model = "baby", .tokensPerSecond = 12345.6, .mfu = 0.42, .lossFirst = 4, .lossLast = 2}, 75);
  std::string text = run.progress();
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  expectContains(text, "compiled 812 ops → 61 kernels, 42 matrix products, 12.4 MB planned, in 1.90 s\n");
  expectContains(
      text, "step 0/4  loss 4.0000  12,346 tokens/s (42 % of the machine)  12.3 MB of 12.4 MB planned  ETA 0:02\n");
  EXPECT_EQ(text.find("step 1/4"), std::string::npos); // within the two seconds between plain lines
  expectContains(text, "step 2/4");                    // the last one is always shown
  expectContains(text, "trained baby for 1:15: loss 4.0000 → 2.0000, 12,346 tokens/s");
  expectContains(text, "42 % of the machine's peak");
}

TEST(TrainLog, quietWritesJsonAlone) {
  LogToFile run;
  TrainLog::Options options = run.options();
  options.quiet = true;
  TrainLog log(options);
  log.message("hello");
  log.step({.step = 0, .loss = 5.5, .elapsed = 0.1});
  log.finish({}, 1);
  EXPECT_EQ(run.progress(), "");
  EXPECT_EQ(run.json().size(), 2u);
}

TEST(TrainLog, refusesAnUnwritableFile) {
  LogToFile run;
  TrainLog::Options options = run.options();
  options.jsonFile = run.folder.path("no/log");
  expectContains(errorOf([&] { TrainLog log(options); }), "no/log: cannot write the log: No such file");
}

TEST(TrainLog, saysOnceThatItCannotBeWrittenAndGoesOn) {
  LogToFile run;
  TrainLog::Options options = run.options();
  options.jsonFile = "/dev/full";
  options.quiet = true;
  TrainLog full(options);
  EXPECT_TRUE(full.complete());
  for (int64_t step = 0; step < 3; ++step)
    full.step({.step = step});
  full.finish({}, 1);
  EXPECT_FALSE(full.complete());
  EXPECT_EQ(run.progress(),
            "warning: /dev/full: cannot write the log: No space left on device; training goes on without "
            "it\n");
}

TEST(TrainLog, progressWithoutAReaderEndsNothing) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> full(std::fopen("/dev/full", "w"), std::fclose);
  TrainLog::Options options;
  options.progress = full.get();
  TrainLog log(options);
  log.message("hello");
  log.step({});
  log.finish({}, 1);
  EXPECT_TRUE(log.complete());
}

TEST(TrainLog, aResumedRunKeepsTheLinesBefore) {
  LogToFile run;
  {
    TrainLog log(run.options());
    for (int64_t step = 0; step < 3; ++step)
      log.step({.step = step, .loss = 1});
    log.finish({}, 1);
  }
  const std::string half = readAll(run.folder.path("log.jsonl")) + "{\"step\":";
  run.folder.write("log.jsonl", half); // a line that a killed run did not end
  TrainLog::Options options = run.options();
  options.firstStep = 2;
  TrainLog log(options);
  log.step({.step = 2, .loss = 2, .elapsed = 1});
  log.step({.step = 3, .loss = 2, .elapsed = 1.5});
  std::vector<Json> lines = run.json();
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i]["step"], i);
    EXPECT_EQ(lines[i]["loss"], i < 2 ? 1 : 2);
  }
}

TEST(TrainLog, flopsUseAbovePeakIsAnError) {
  EXPECT_DOUBLE_EQ(modelFlopsUse(6e6, 2000, 48e9), 0.25);
  expectContains(errorOf([] { modelFlopsUse(6e6, 2000, 11e9); }), "above the measured peak of 1.1e+10");
  EXPECT_NE(errorOf([] { modelFlopsUse(1, 1, 0); }), "");
  EXPECT_NE(errorOf([] { modelFlopsUse(1, NAN, 1e9); }), "");
}

TEST(TrainLog, medianLeavesTheFirstStepOut) {
  StepTimes times;
  EXPECT_EQ(times.medianMs(), 0);
  times.add(900);
  EXPECT_EQ(times.medianMs(), 900);
  times.add(10);
  times.add(30);
  EXPECT_EQ(times.medianMs(), 20);
  times.add(11);
  EXPECT_EQ(times.medianMs(), 11);
}

} // namespace
} // namespace tcc::models
