// TrainLog writes what a training run says: progress for people to a stream, and JSON lines for programs to a file.
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

/// What is known of one step after it; --json writes it as a line.
struct StepRecord {
  int64_t step = 0; ///< 0-based
  double loss = 0;
  double ms = 0; ///< wall time of the step
  double tokensPerSecond = 0;
  double learningRate = 0;
  double norm = 0;                           ///< the gradients' norm, before clipping
  int64_t tokens = 0;                        ///< how many tokens were trained on since the run's first step
  double elapsed = 0;                        ///< seconds that steps and evaluations have taken since then
  int64_t skipped = 0;                       ///< how many updates were left out so far, as gradients were not finite
  std::optional<double> validationLoss = {}; ///< the evaluation's loss, if one followed the step

  std::vector<std::pair<std::string, std::string>> parameterHashes = {}; ///< name and checksum, if asked for

  double averageTokensPerSecond = 0; ///< over this process's steps; not in the JSON line
  /// The average share of the machine's measured peak: "mfu" in the JSON line, where a share above 1 is left out.
  std::optional<double> machineShare = {};
  /// The step's memory, as planned and as used so far; not in the JSON line.
  int64_t plannedBytes = 0, countedBytes = 0;
};

/// The whole run. The last line of --json has these members in this order.
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

/// What the compiler made of the training step, for the line of compiled().
struct CompileSummary {
  int64_t ops = 0;
  int64_t kernels = 0;
  int64_t matmuls = 0;
  int64_t plannedBytes = 0;
  double seconds = 0;
  std::string cache = "off";    ///< "hit", "miss" or "off"
  std::string cacheReason = {}; ///< tcc::CompileSummary::cache
};

/// The share of the machine's peak that training reaches: flopsPerToken * tokensPerSecond / peakFlops.
/// trainingFlopsPerToken gives the first; the last is the operations a second of matmuls of this dtype, as measured on
/// this machine. Throws Error where the share is above 1: then the peak or the time is wrong, and the share must not be
/// printed.
double modelFlopsUse(double flopsPerToken, double tokensPerSecond, double peakFlops);

/// Step times in milliseconds. If there are several, median and mean leave out the first, when caches were cold; if
/// there are none, both are 0.
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
    bool quiet = false;      ///< people see warnings and errors alone; JSON lines are still written
    std::string jsonFile;    ///< the file for JSON lines; "-" is stdout, and without a name none are written
    bool keepsLines = false; ///< whether lines() gives every JSON line too
    int64_t firstStep = 0;   ///< the step that the run resumes at: jsonFile keeps the lines of the steps before it
    std::FILE *progress = stderr;
    double plainSeconds = 2; ///< the least time between two lines if `progress` is no terminal
  };

  /// Opens the JSON file; throws Error where it cannot. If a later write fails, the run goes on: see complete().
  explicit TrainLog(const Options &options);
  TrainLog(const TrainLog &) = delete;
  TrainLog &operator=(const TrainLog &) = delete;
  ~TrainLog();

  /// Prints a line, for example what is being done; not under quiet.
  void message(std::string_view text);
  /// Prints "warning: " and the text, also under quiet.
  void warning(std::string_view text);
  /// Prints "error: " and the text, which says why the run ends, also under quiet.
  void error(std::string_view text);
  /// Prints "compiled 812 ops → 61 kernels, 42 matrix products, 12.4 MB planned, in 1.90 s".
  void compiled(const CompileSummary &summary);
  /// Logs a step. A terminal shows the steps in one line that is rewritten and holds only what fits into its width; the
  /// line of a step with an evaluation stays. Anything else gets plain lines: the first and the last step's, and
  /// between them at most one every `plainSeconds`.
  void step(const StepRecord &record);
  /// Writes the last line of JSON, and the run in one line for people.
  void finish(const RunSummary &summary, double elapsed);
  /// Whether every JSON line was written. The first failure is reported, also under quiet; after it no line is written.
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
  bool broken = false; ///< whether a line of JSON could not be written
  bool lineOpen = false;
  double lastShown = -1;
  double firstElapsed = -1;          ///< when this process's first step began
  std::optional<StepRecord> unshown; ///< the latest step, if it has not been printed
};

} // namespace tcc::models
