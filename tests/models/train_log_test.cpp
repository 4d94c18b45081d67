#include "models/train_log.h"
#include "test_files.h"

#include <cctype>
#include <cmath>
#include <fcntl.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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
  std::vector<Json> json() const { return jsonLines<Json>(readAll(folder.path("log.jsonl"))); }
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

TEST(TrainLog, saysWhyAStepIsNotFromTheCache) {
  LogToFile run;
  TrainLog log(run.options());
  log.compiled({.cache = "off", .cacheReason = "not used: off, by --no-cache"});
  log.compiled({.cache = "miss", .cacheReason = "miss: flags differ: -O2 → -O1"});
  log.compiled({.cache = "hit", .cacheReason = "hit: /some/file"});
  const std::string text = run.progress();
  expectContains(text, "\ncache not used: off, by --no-cache\n");
  expectContains(text, "\ncache miss: flags differ: -O2 → -O1\n");
  EXPECT_EQ(text.find("/some/file"), std::string::npos) << text;
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

/// A terminal of some width, and what it shows: of control sequences it knows the one that clears a line.
class Terminal {
public:
  explicit Terminal(uint16_t columns, bool saysItsWidth = true)
      : columns(columns), side(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::setenv("TERM", "xterm", 1);
    ::grantpt(side);
    ::unlockpt(side);
    stream.reset(std::fopen(::ptsname(side), "w"));
    termios mode{};
    ::tcgetattr(::fileno(stream.get()), &mode);
    mode.c_oflag &= ~tcflag_t(OPOST); // a line's end comes as it was written
    ::tcsetattr(::fileno(stream.get()), TCSANOW, &mode);
    const winsize size{40, saysItsWidth ? columns : uint16_t(0), 0, 0};
    ::ioctl(side, TIOCSWINSZ, &size);
  }
  ~Terminal() { ::close(side); }

  TrainLog::Options options() const {
    TrainLog::Options options;
    options.length.steps = 10;
    options.progress = stream.get();
    return options;
  }

  /// The screen's lines so far, without blanks at their ends.
  const std::vector<std::string> &lines() {
    std::fflush(stream.get());
    ::fcntl(side, F_SETFL, O_NONBLOCK);
    char text[4096];
    for (ssize_t count; (count = ::read(side, text, sizeof text)) > 0;)
      for (const char c : std::string_view(text, size_t(count)))
        show(c);
    return screen;
  }

private:
  void show(char c) {
    if (!sequence.empty() || c == '\x1b') {
      sequence += c;
      if (sequence == "\x1b[K")
        screen.back().resize(column);
      if (sequence.size() > 2 && std::isalpha(static_cast<unsigned char>(c)))
        sequence.clear();
    } else if (c == '\r') {
      column = 0;
    } else if (c == '\n') {
      screen.emplace_back();
      column = 0;
    } else {
      if (column == columns) {
        screen.emplace_back();
        column = 0;
      }
      screen.back().resize(std::max(screen.back().size(), column + 1), ' ');
      screen.back()[column++] = c;
    }
  }

  size_t columns;
  int side;
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> stream{nullptr, std::fclose};
  std::vector<std::string> screen{""};
  size_t column = 0;
  std::string sequence;
};

StepRecord stepOf(int64_t step) {
  return {.step = step,
          .loss = 4.25,
          .ms = 500,
          .elapsed = 0.5 * double(step + 1),
          .averageTokensPerSecond = 12345.6,
          .machineShare = 0.42,
          .plannedBytes = 12400000,
          .countedBytes = 12300000};
}

TEST(TrainLog, progressIsOneLineOfATerminalOfAnyWidth) {
  const std::string whole =
      "step 2/10  loss 4.2500  12,346 tokens/s (42 % of the machine)  12.3 MB of 12.4 MB planned  "
      "ETA 0:04";
  const std::pair<uint16_t, std::string> widths[] = {
      {200, whole},
      {uint16_t(whole.size() + 1), whole},
      {uint16_t(whole.size()), "step 2/10  loss 4.2500  12,346 tokens/s (42 % of the machine)  ETA 0:04"},
      {60, "step 2/10  loss 4.2500  ETA 0:04"},
      {30, "step 2/10  loss 4.2500"},
      {20, "step 2/10  loss 4.2"},
      {1, ""}};
  for (const auto &[columns, text] : widths) {
    Terminal terminal(columns);
    TrainLog log(terminal.options());
    for (int64_t step = 0; step < 3; ++step)
      log.step(stepOf(step));
    EXPECT_EQ(terminal.lines(), std::vector<std::string>{text}) << columns;
  }
  Terminal unknown(80, /*saysItsWidth=*/false);
  TrainLog log(unknown.options());
  for (int64_t step = 0; step < 3; ++step)
    log.step(stepOf(step));
  EXPECT_EQ(unknown.lines(), std::vector<std::string>{widths[2].second});
}

TEST(TrainLog, progressOnATerminalRemovesNoOtherLine) {
  Terminal terminal(60);
  TrainLog log(terminal.options());
  log.message("compiling");
  log.step(stepOf(0));
  StepRecord evaluated = stepOf(1);
  evaluated.validationLoss = 4.5;
  log.step(evaluated);
  log.step(stepOf(2));
  log.warning("something");
  log.step(stepOf(3));
  log.step(stepOf(4));
  log.message("done");
  EXPECT_EQ(terminal.lines(), (std::vector<std::string>{"compiling",
                                                        // wider than the terminal, and kept
                                                        "step 1/10  loss 4.2500  held out 4.5000  12,346 tokens/s (42",
                                                        " % of the machine)  12.3 MB of 12.4 MB planned  ETA 0:04",
                                                        "step 2/10  loss 4.2500  ETA 0:04", "warning: something",
                                                        "step 4/10  loss 4.2500  ETA 0:03", "done", ""}));
}

TEST(TrainLog, marksAPeakThatTheRunHasExceeded) {
  LogToFile run;
  TrainLog log(run.options());
  StepRecord record = stepOf(0);
  record.machineShare = 1.13;
  log.step(record);
  expectContains(run.progress(), "12,346 tokens/s (113 %! of the machine)");
  EXPECT_FALSE(run.json()[0].contains("mfu"));
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
