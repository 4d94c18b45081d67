// What a training run says: progress for people on a stream, JSON lines for programs in a file.
#pragma once
#include "models/schedule.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::models {

/// One step, as in a line of --json.
struct StepRecord {
  int64_t step = 0; ///< 0-based
  double loss = 0;
  double ms = 0; ///< wall time of the step
  double tokensPerSecond = 0;
  double learningRate = 0;
  double norm = 0;                           ///< of the gradients, before clipping
  int64_t tokens = 0;                        ///< trained on since the run's first step
  double elapsed = 0;                        ///< seconds in steps and evaluations since then
  int64_t skipped = 0;                       ///< updates left out so far
  std::optional<double> validationLoss = {}; ///< where the step was followed by an evaluation

  std::vector<std::pair<std::string, std::string>> parameterHashes = {}; ///< name and checksum, where asked for

  double averageTokensPerSecond = 0; ///< of this process's steps; for people alone
  /// The average share of the machine's measured peak: "mfu" in the line. A share above 1 is not written.
  std::optional<double> machineShare = {};
  int64_t plannedBytes = 0, countedBytes = 0; ///< the step's memory, as planned and as used so far; for people alone
};

/// The whole run: the last line of --json, in this order.
struct RunSummary {
  std::string model;
  std::string config = {}; ///< the file of --config; in the line only where there is one
  int64_t params = 0;
  int64_t batch = 0;
  int64_t seq = 0;
  std::string dtype = "f32";  ///< or "bf16"
  std::string target = "cpu"; ///< for example "cpu-avx512"
  double tokensPerSecond = 0;
  double stepMsMedian = 0;
  std::optional<double> mfu; ///< see modelFlopsUse; null where no peak was measured
  double firstStepSeconds = 0;
  double compileSeconds = 0;
  std::string cache = "off"; ///< "hit", "miss" or "off"
  double lossFirst = 0;
  double lossLast = 0;
  std::optional<double> validationLoss = {}; ///< the last one; in the line only where there is one
  int64_t plannedBytes = 0;
  int64_t peakBytes = 0;
  int64_t kernels = 0;
  int64_t matmuls = 0;
  int64_t recompiles = 0;
  int threads = 0;
};

/// What the compiler made of the training step.
struct CompileSummary {
  int64_t ops = 0;
  int64_t kernels = 0;
  int64_t matmuls = 0;
  int64_t plannedBytes = 0;
  double seconds = 0;
  std::string cache = "off";    ///< "hit", "miss" or "off"
  std::string cacheReason = {}; ///< tcc::CompileSummary::cache
};

/// flopsPerToken (trainingFlopsPerToken) * tokensPerSecond / peakFlops (operations a second of products, measured on
/// this machine for this dtype). Throws Error where the result is above 1: then the peak or the time is wrong, and
/// the figure must not be printed.
double modelFlopsUse(double flopsPerToken, double tokensPerSecond, double peakFlops);

/// Step times in milliseconds. Median and mean leave the first one out (cold caches) if there are more; without any
/// step they are 0.
struct StepTimes {
  void add(double ms) {
    all.push_back(float(ms));
    sum += ms;
  }
  int64_t count() const { return int64_t(all.size()); }
  double medianMs() const;
  double meanMs() const;

private:
  std::vector<float> all;
  double sum = 0;
};

class TrainLog {
public:
  struct Options {
    RunLength length;        ///< for the ETA
    bool quiet = false;      ///< nothing for people; JSON lines are still written
    std::string jsonFile;    ///< JSON lines go there, "-" is stdout; empty: nowhere
    bool keepsLines = false; ///< lines() has every JSON line too
    int64_t firstStep = 0;   ///< above 0: an older jsonFile keeps the lines of the steps before this one
    std::FILE *progress = stderr;
    double plainSeconds = 2; ///< the least time between two lines if `progress` is no terminal
  };

  /// Opens the JSON file; throws Error where it cannot. A failed write later ends nothing.
  explicit TrainLog(const Options &options);
  TrainLog(const TrainLog &) = delete;
  TrainLog &operator=(const TrainLog &) = delete;
  ~TrainLog();

  /// A line of its own, for example what is being done; not under quiet.
  void message(std::string_view text);
  /// "warning: …", also under quiet.
  void warning(std::string_view text);
  /// "error: …", also under quiet: what ends the run.
  void error(std::string_view text);
  /// "compiled 812 ops → 61 kernels, 42 matrix products, 12.4 MB planned, in 1.90 s".
  void compiled(const CompileSummary &summary);
  /// Logs a step. On a terminal one line is rewritten, which has only what fits in its width, and an evaluation's line
  /// stays; elsewhere plain lines appear at most every `plainSeconds`, the first and the last step always.
  void step(const StepRecord &record);
  /// The last line of JSON, and the run in one line for people.
  void finish(const RunSummary &summary, double elapsed);
  /// Whether every JSON line was written. The first one that could not be is reported, also under quiet; after that no
  /// line is written.
  bool complete() const { return !broken; }
  /// This process's JSON lines, where they are kept.
  const std::string &lines() const { return kept; }

private:
  void writeJson(const std::string &line);
  void put(const std::string &text);
  void endRewrittenLine();
  struct Field {
    int rank; ///< if a terminal is too narrow, the fields with the highest rank are left out first
    std::string text;
  };
  std::vector<Field> progressFields(const StepRecord &record) const;
  std::string rewrittenLine(const StepRecord &record) const;

  Options options;
  bool terminal = false, colour = false;
  std::FILE *json = nullptr;
  std::string kept;
  bool broken = false; ///< a line of JSON is missing
  bool lineOpen = false;
  double lastShown = -1;
  double firstElapsed = -1;          ///< when this process's first step began
  std::optional<StepRecord> unshown; ///< the latest step where it has not been printed
};

} // namespace tcc::models
