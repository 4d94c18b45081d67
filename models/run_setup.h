// What a training run checks and writes down before its first step.
#pragma once
#include "frontend/optim.h"
#include "models/adapter.h"
#include "models/batches.h"
#include "models/checkpoint.h"
#include "models/model.h"
#include "models/options.h"
#include "models/run_state.h"
#include "models/tokenizer.h"
#include "models/tokenizer_files.h"

#include <memory>
#include <optional>
#include <string>

namespace tcc::models {

/// Throws Error if `what` needs more `bytes` than the machine has memory: otherwise the system would end the program
/// later.
void checkMemory(const std::string &what, double bytes);

/// Refuses a --seq beyond the model's positions with an Error.
void checkSequence(const TrainOptions &options, const ModelConfig &config);

/// The folder's configuration, or that of the options, checked against the rest of the command line.
ModelConfig trainedConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder);
/// The same, checked against the machine's memory too.
ModelConfig fittingConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder);

/// The folder of --init, or nothing.
std::optional<ModelFolder> openModelFolder(const TrainOptions &options);
/// The adapter of --adapter, or nothing.
std::optional<AdapterFolder> openAdapter(const TrainOptions &options, const ModelConfig &config);
/// The adapter that is trained: that of --adapter, checked against --lora, or a new one on every layer; or nothing.
std::optional<AdapterConfig> trainedAdapter(const TrainOptions &options, const ModelConfig &config,
                                            const std::optional<AdapterFolder> &folder);
/// The optimizer that the options name, for all of `parameters`.
std::unique_ptr<optim::Optimizer> makeOptimizer(const TrainOptions &options, std::vector<Parameter> parameters);

/// The step of a run: tokens, targets [N*B, T], learning rate, number (stepInputNames) to loss and gradient norm. The
/// model and the optimizer must outlive it.
Function trainingFunction(const TrainOptions &options, const Model &model, optim::Optimizer &optimizer,
                          FunctionOptions function);

/// Does what --train-tokenizer asks for.
void learnTokenizer(const TrainOptions &options);

/// The rates of a run's steps: --dropout, else those of the model's configuration.
DropoutRates trainedDropout(const TrainOptions &options, const ModelConfig &config);
/// What a run says of its dropout; empty where there is none and none was asked for.
std::string dropoutText(const TrainOptions &options, const ModelConfig &config);

/// The names of the step's inputs: a dropout's seed is one where there is dropout.
std::vector<std::string> stepInputNames(const DropoutRates &dropout);

/// Zeros of the step's inputs for so many rows, to compile the step for.
std::vector<Array> emptyStepInputs(int64_t rows, int64_t sequence, const DropoutRates &dropout);

/// The options of a run that only compiles: no data is read, and a tokenizer says how many tokens there are.
TrainOptions withoutData(const TrainOptions &options);

/// Which tokens are trained on and which are held out, by --eval-every and its kin.
HeldOutSplit splitData(const TrainOptions &options, const TokenSource &source, int64_t sequence);

/// The tokenizer that a run reads texts by: that of --tokenizer (--train-tokenizer learns it first), else that of
/// --init; or nothing. Throws Error for one that is damaged or of a kind that is not here, unless it is --init's
/// and the data are tokens already.
std::optional<Tokenizer> runTokenizer(const TrainOptions &options);
/// The files of that tokenizer, for the folders that the run writes; for a text that is read without a tokenizer, the
/// files of a tokenizer of bytes.
TokenizerFiles savedTokenizer(const TrainOptions &options, const ModelConfig &config, TokenFormat format);

/// Texts and examples become files of tokens; texts without a tokenizer stay as they are, their bytes are tokens.
/// Throws Error where that cannot be.
void tokeniseData(TrainOptions &options, const Tokenizer *tokenizer);
/// A preset takes the tokenizer's vocabulary. Throws Error where it cannot.
void applyTokenizer(TrainOptions &options, const Tokenizer &tokenizer);
/// Does what --dump-tokens asks for.
void dumpTokens(const TrainOptions &options, const Tokenizer &tokenizer);

/// What a run's checkpoints say of it, at step 0. `base` is the folder that `adapter` stands beside; `device` is
/// its kind.
RunState describeRunState(const TrainOptions &options, const ModelConfig &config, int64_t sequence,
                          const TokenSource &data, const std::optional<AdapterConfig> &adapter,
                          const std::optional<ModelFolder> &base, const std::string &device);

/// How a run ended that a signal stopped after `steps`, and whether it can go on.
std::string stoppedText(int signal, int64_t steps, bool hasCheckpoints, bool isKept);

/// Why a run ends whose updates were left out `skipped` times in a row, the last of them step `last`; `where` says
/// which value was not finite. `written` is the step of the last checkpoint, or -1.
std::string divergedText(const TrainOptions &options, int64_t skipped, int64_t last, const std::string &where,
                         int64_t written);

/// What the user has not tried yet, a line each.
std::string suggestions(const TrainOptions &options);

} // namespace tcc::models
