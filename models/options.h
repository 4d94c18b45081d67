// The command line of train_gpt.
#pragma once
#include "frontend/compiler_flags.h"
#include "models/batches.h"
#include "models/file_options.h"
#include "models/model_config.h"
#include "models/schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tcc::models {

/// The options of train_gpt. The compiler's flags are its base, since one table has them, their spelling and their
/// help.
struct TrainOptions : CompilerFlags {
  // Model
  std::string model = "baby"; ///< preset; with `initFolder` the folder's name, for the log
  ModelConfig config;         ///< preset and departures from it; with `initFolder` the folder's config.json counts
  std::string initFolder;     ///< Hugging Face folder with the initial weights, or empty

  int64_t loraRank = 0;            ///< above 0: train adapters of this rank beside frozen weights
  std::optional<double> loraAlpha; ///< or 16, or what the adapter has
  std::string adapterFolder;       ///< PEFT's folder of the adapter to start from, or empty

  bool vocabularyGiven = false; ///< --vocab: else a tokenizer sets a preset's vocabulary
  std::string tokenizerFolder;  ///< of vocab.json and merges.txt or tokenizer.json, or empty

  int64_t trainVocabulary = 0; ///< above 0: tokenizerFolder's is learned from the data first, so many tokens

  // Data
  std::vector<std::string> dataFiles; ///< read as one, in this order
  bool hasExamples = false;           ///< whether they are JSON lines, in which some tokens are not learned
  bool packsExamples = true;          ///< several examples in a row
  int64_t batch = 0;                  ///< B, rows
  bool largestBatch = false;       ///< --batch=auto: the most rows whose step fits in the memory limit, or the machine
  std::optional<int64_t> sequence; ///< T of --seq; without it config.sequence
  Order order = Order::Random;
  bool prefetches = true; ///< a thread makes the next batch while a step runs; else the step waits for its batch
  uint64_t seed = 1337;
  int64_t evalEvery = 0;    ///< steps between two evaluations on held-out tokens; 0: none, and nothing is held out
  double evalShare = 0.1;   ///< held out of the data, its end, where evalFile is empty
  std::string evalFile;     ///< evaluated instead, or empty
  int64_t evalBatches = 20; ///< of an evaluation, or as many as there are
  std::vector<std::string> dataTexts; ///< of dataFiles made by a tokenizer: the texts that the user named, else ""
  std::string evalText;               ///< the same of evalFile

  // Training
  Schedule schedule;                               ///< learning rate, warm-up, and the run's length (steps, seconds)
  std::string optimizer = "adamw";                 ///< or sgd, lion, adafactor, muon
  runtime::DType parameters = runtime::DType::f32; ///< of weights and moments: f32, or bf16 with stochastic rounding
  std::optional<double> dropout; ///< of every place that the model has; else its configuration's rates
  double weightDecay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, clipNorm = 1.0;
  bool storesMask = false;      ///< --mask=stored: attention reads its causal mask from memory
  int64_t accumulate = 1;       ///< how many batches a step has
  std::optional<int64_t> lanes; ///< parts of each batch that are added in one tree; by default 1, on several ranks 8
  int64_t maxSkipped = 20;      ///< how many updates left out in a row end the run; 0: the run goes on
  bool findNan = false;         ///< whether such an end names the op and its line, and not the kernel

  // Several processes
  int64_t ranks = 0;       ///< above 0: how many there are; the program starts them unless a launcher has
  bool fastReduce = false; ///< --reduce=fast: bits depend on the number of ranks too
  int zero = 0; ///< --zero=: what ranks share out beside lanes: nothing, the optimizer's states (1), sums too (2),
                ///< parameters too (3)
  bool choosesZero = false; ///< --zero=auto: the least stage whose step fits in the memory
  std::string zeroReason;   ///< why --zero=auto chose this stage, for the log

  // Before a run
  bool ladder = false;     ///< train with one switch of the compiler after the other (models/ladder.h)
  bool ablate = false;     ///< train with one switch off at a time (models/ablation.h)
  bool estimate = false;   ///< only say what a run would need (models/estimate.h)
  std::string clusterFile; ///< estimate for up to `ranks` ranks of the cluster that this file describes, or empty
  double estimateMemory =
      0; ///< --memory: bytes that the largest batch is found for; 0: the limit, or what the machine has
  double pricePerHour = 2; ///< dollars for an hour of a GPU, or of a machine that trains on its processor

  // Checkpoints
  std::string checkpointFolder; ///< or empty
  int64_t checkpointEvery = 0;  ///< steps; 0: only where the run ends
  int64_t keepCheckpoints = 3;
  bool resume = false;

  bool checkDevice = false;    ///< first compare one step with the CPU, kernel by kernel
  std::string device = "auto"; ///< or cpu, or a kind of device, or KIND:N

  std::string emitGraph;     ///< write the training step as .graph text to this file, or empty
  std::string compileOnly;   ///< write the training step as a library to this file and nothing else, or empty
  bool hasRuntime = false;   ///< whether this library has the runtime inside
  std::string initialStates; ///< with compileOnly: write the states before the first step to this file, or empty
  std::string stepFile;      ///< take the training step from this library or artefact, or empty

  std::string configFile;                 ///< a file with more options, or empty
  std::vector<std::string> commandLine;   ///< the words that were given, for the page of --report
  std::vector<std::string> configOptions; ///< its options as arguments, without those that the command line gives

  // Output
  std::string jsonFile; ///< JSON lines, or empty; "-" is stdout
  int64_t sampleTokens = 0;
  std::string prompt = "\n";
  double temperature = 0.8;
  int topK = 0;                  ///< 0: all tokens
  double topP = 1;               ///< share of the probability that is sampled from
  std::vector<std::string> stop; ///< texts that end a generated one
  bool cachesKeys = true;        ///< generated tokens are computed from kept keys and values (models/key_value_cache.h)
  std::string dumpTokens;        ///< write the data's tokens to this shard and nothing else, or empty
  int64_t generateTokens = 0;    ///< above 0: generate so many from initFolder's weights and nothing else
  std::string csvFile;           ///< a line of CSV a step, or empty
  std::string tensorBoardFolder; ///< scalars for TensorBoard, or empty
  std::string wandbFolder;       ///< gets an offline run of Weights & Biases, or empty
  std::string profileFile;       ///< a Chrome trace of the run, or empty
  std::string plotFile;          ///< the loss as an SVG figure, or empty
  int64_t hashEvery = 0;         ///< steps between two checksums of the parameters in the log; 0: none
  std::string dumpGrads;         ///< safetensors of the first step's unclipped gradients, or empty
  std::string saveFolder;        ///< Hugging Face folder for the trained weights, or empty
  bool quiet = false;

  /// Whether an adapter is trained beside frozen weights.
  bool adapts() const { return loraRank > 0 || !adapterFolder.empty(); }
};

/// What a command line asks for: options to train with, or a text to print and a status to exit with.
struct ParsedOptions {
  std::optional<TrainOptions> options;
  int exitStatus = 0;  ///< 0 after --help and --version, 2 after a usage error
  std::string message; ///< for stdout where exitStatus is 0, else for stderr (without "error: ")
};

/// Parses `arguments` (without the program's name). Never throws for the user's input, and opens no file but that of
/// --config, which `readFile` reads. With --init, the sizes of --model are only placeholders: the program replaces
/// `config` by the folder's (see readConfig). A program that has the compiler knows both others: `deviceKinds`, what
/// --device names beside auto and cpu (run_device.h), and `readFile` (options_file.h).
ParsedOptions parseTrainOptions(const std::vector<std::string> &arguments,
                                const std::vector<std::string> &deviceKinds = {}, const ReadOptionsFile &readFile = {});

} // namespace tcc::models
