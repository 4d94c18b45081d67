// Trainer: one run of train_gpt. trainer.cpp prepares it and takes it from its first line to its last,
// trainer_steps.cpp trains, trainer_end.cpp says and writes what comes of it.
#pragma once
#include "models/evaluation.h"
#include "models/model.h"
#include "models/replicas.h"
#include "models/run_checkpoints.h"
#include "models/run_device.h"
#include "models/run_pictures.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "models/step_profile.h"
#include "models/stop_request.h"
#include "models/train_log.h"
#include "runtime/device/device.h"

#include <chrono>
#include <fmt/format.h>

namespace tcc::models {

using Clock = std::chrono::steady_clock;

/// A batch as the step takes it.
struct StepInputs {
  Array tokens, targets;

  StepInputs(int64_t rows, int64_t sequence)
      : tokens({rows, sequence}, DType::i32), targets({rows, sequence}, DType::i32) {}
};

/// A step that was started; its loss may still be on its way.
struct StartedStep {
  int64_t index = 0;
  double rate = 0;
  Clock::time_point begin;
  Array loss = {}, norm = {};
};

class Trainer {
public:
  Trainer(const TrainOptions &options, RunDevice device, RunRanks &ranks, std::optional<ModelFolder> folder,
          const Tokenizer *tokenizer, std::FILE *output, runtime::Trace *timeLine);

  int run();

private:
  int runAll();
  void showFailure(const std::string &error);
  void writePage(const std::string &error);
  FunctionOptions function(std::vector<std::string> inputs, std::vector<std::string> outputs);
  FunctionOptions stepFunction();
  std::vector<std::string> prepareCheckpoints(const std::optional<ModelFolder> &folder);
  void loadWeights(const std::optional<ModelFolder> &folder);
  void prepareEvaluation();
  std::vector<Array> stepArguments(double rate, int64_t index) const;
  void describeRun();
  void compileStep();
  void readBatch(int64_t index);
  StartedStep startStep();
  void finishStep(const StartedStep &started);
  void agreeOnMoment();
  std::vector<State> keptStates() const;
  void finishStarted();
  void trainStep();
  void trainAll();
  bool isDue(int64_t every) const;
  bool endsHere() const;
  bool hasDiverged() const { return options.maxSkipped > 0 && skippedInARow >= options.maxSkipped; }
  std::string divergence();
  /// measurePeak, of as many devices as there are ranks.
  double peakOfRanks(double trainedSeconds) const {
    return double(ranks.count()) * measurePeak(options, device, trainedSeconds);
  }
  void compareReplicas();
  bool isOver() const { return options.schedule.length.finished(state.step, elapsed); }
  void examine(StepRecord &record, bool evaluates, bool hashes);
  void writeCheckpoint(bool isLast = false);
  void gatherAtTheEnd();
  void finish();
  void sayMemory();
  std::vector<NamedTensor> savedTensors() const;
  void save();
  void sample(std::span<const int32_t> prompt);
  /// What the user trains on what.
  std::string title() const { return fmt::format("{} on {}", options.model, source.name()); }
  int64_t stepTokens() const { return options.accumulate * options.batch * sequence; }

  const TrainOptions &options;
  RunDevice device;
  std::shared_ptr<runtime::Device> cpu = runtime::makeCpuDevice(); // all functions of a run on the CPU share its arena
  RunRanks &ranks;
  const Tokenizer *tokenizer; // null: texts are bytes
  std::FILE *output;
  runtime::Trace *timeLine; // of --profile, or null
  ModelConfig config;
  DropoutRates dropout;
  std::optional<AdapterFolder> firstAdapter; // of --adapter
  std::optional<AdapterConfig> adapter;
  int64_t sequence;
  TokenSource source;
  TokenizerFiles savedFiles; // the tokenizer for the folders that are written
  HeldOutSplit split;
  Batches batches;
  PrefetchedBatches prefetched{batches, timeLine};
  RunState state;
  double elapsed = 0; // seconds in steps since the run's first one, by the first rank's clock
  int stopSignal = 0; // the signal that a rank was sent, on which the ranks have agreed
  std::optional<RunCheckpoints> checkpoints;
  std::vector<std::string> notes; // said once there is a log
  TrainLog log;
  Model model;
  std::string initialConfig;             // text of the folder's config.json, or of the adapter's
  std::vector<std::string> initialNames; // of the folder's tensors, in the order of the parameters
  std::unique_ptr<optim::Optimizer> optimizer;
  Function step;
  StepInputs inputs;
  std::optional<TokenSource> evaluationSource;
  std::optional<Evaluation> evaluation;

  std::optional<StopRequest> stop; // while the loop runs

  RunPictures pictures;
  std::optional<StartedStep> started; // a step that runs on a device beside the host, and is not logged yet
  Clock::time_point lastFinished;
  StepTimes times;
  RunSummary summary;
  StepProfile profile{timeLine, !options.reportFolder.empty()};
  int64_t waitedNs = 0; // how long all steps have waited for their batches
  double peakFlops = 0;
  bool saidAboveLimit = false;
  double flopsPerToken = trainingFlopsPerToken(config, sequence);
  int64_t writtenStep = -1;     // of the last checkpoint
  bool lacksCheckpoint = false; // the last one could not be written
  int64_t skippedInARow = 0;    // updates
};

} // namespace tcc::models
