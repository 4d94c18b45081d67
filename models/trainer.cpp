#include "models/trainer.h"
#include "frontend/quotes.h"
#include "frontend/state_parts.h"
#include "models/checksum.h"
#include "models/counter_random.h"
#include "models/estimate.h"
#include "models/evaluation.h"
#include "models/generate.h"
#include "models/launch_ranks.h"
#include "models/model.h"
#include "models/replicas.h"
#include "models/run_checkpoints.h"
#include "models/run_device.h"
#include "models/run_dumps.h"
#include "models/run_files.h"
#include "models/run_pictures.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "models/run_trace.h"
#include "models/start_folders.h"
#include "models/step_profile.h"
#include "models/stop_request.h"
#include "models/text_generator.h"
#include "models/train_log.h"
#include "runtime/executable.h"
#include "runtime/memory.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace tcc::models {
namespace {

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
  bool isOver() const { return options.schedule.length.finished(state.step, elapsed); }
  void writeCheckpoint();
  void finish();
  std::vector<NamedTensor> savedTensors() const;
  void save();
  void sample(std::span<const int32_t> prompt);
  /// What the user trains on what.
  std::string title() const { return fmt::format("{} on {}", options.model, source.name()); }
  int64_t stepTokens() const { return options.accumulate * options.batch * sequence; }

  const TrainOptions &options;
  RunDevice device;
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
  int stopSignal = 0; // that a rank was sent, agreed on
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
  std::optional<StartedStep> started; // of a device that works beside the host: not logged yet
  Clock::time_point lastFinished;
  StepTimes times;
  RunSummary summary;
  StepProfile profile{timeLine, !options.reportFolder.empty()};
  int64_t waitedNs = 0; // of all steps, for their batches
  double peakFlops = 0;
  bool saidAboveLimit = false;
  double flopsPerToken = trainingFlopsPerToken(config, sequence);
  int64_t writtenStep = -1;  // of the last checkpoint
  int64_t skippedInARow = 0; // updates
};

Trainer::Trainer(const TrainOptions &options, RunDevice chosen, RunRanks &ranks, std::optional<ModelFolder> folder,
                 const Tokenizer *tokenizer, std::FILE *output, runtime::Trace *timeLine)
    : options(options), device(std::move(chosen)), ranks(ranks), tokenizer(tokenizer), output(output),
      timeLine(timeLine), config(fittingConfig(options, folder)), dropout(trainedDropout(options, config)),
      firstAdapter(openAdapter(options, config)), adapter(trainedAdapter(options, config, firstAdapter)),
      sequence(options.sequence.value_or(config.positions())),
      source(options.dataFiles, config.vocabulary(), options.dataTexts),
      savedFiles(savedTokenizer(options, config, source.format())), split(splitData(options, source, sequence)),
      batches(source, split.training, options.accumulate * options.batch, sequence, options.order, options.seed,
              options.packsExamples),
      notes(prepareCheckpoints(folder)), log({.length = options.schedule.length,
                                              .quiet = options.quiet,
                                              .jsonFile = options.jsonFile,
                                              .keepsLines = !options.reportFolder.empty(),
                                              .firstStep = state.step}),
      model(config, adapter, options.parameters), optimizer(makeOptimizer(options, model.trained())),
      step(trainingFunction(options, model, *optimizer, stepFunction())),
      inputs(options.accumulate * options.batch, sequence), pictures(options, log, title(), state.step) {
  if (options.storesMask)
    model.storeMask(sequence);
  log.message(device.note);
  if (!options.configFile.empty())
    log.message(fmt::format("options of {}: {}", options.configFile, textOf(options.configOptions)));
  for (const std::string &note : notes)
    log.message(note);
  loadWeights(folder);
  prepareEvaluation();
}

/// What training begins with, or goes on from.
void Trainer::loadWeights(const std::optional<ModelFolder> &folder) {
  const runtime::TraceScope traced(timeLine, "load weights", "train");
  const bool resumed = checkpoints && checkpoints->resumed();
  if (adapter) {
    initialConfig = firstAdapter ? firstAdapter->configText() : "";
  } else if (folder) {
    initialConfig = folder->configText();
    for (const ParameterSpec &parameter : config.parameters())
      initialNames.push_back(folder->sourceName(parameter));
  }
  if (folder)
    for (const std::string &note : folder->notes())
      log.message("note: " + note);
  if (firstAdapter)
    for (const std::string &note : firstAdapter->notes())
      log.message("note: " + note);
  if (folder && (adapter || !resumed))
    model.load(*folder);
  if (resumed) {
    checkpoints->load(model, optimizer->states(), step.lossScaling());
    log.message(fmt::format("going on after step {} of {}", state.step - 1, options.checkpointFolder));
  } else if (firstAdapter) {
    model.load(*firstAdapter);
  } else if (adapter) {
    model.initializeAdapter(options.seed);
  } else if (!folder) {
    model.initialize(options.seed);
  }
  shareStates(ranks, model, keptStates());
}

FunctionOptions Trainer::function(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  FunctionOptions chosen = functionOptions(options, device, std::move(inputs), std::move(outputs),
                                           [this](std::string_view text) { log.message(text); });
  chosen.reportFolder.clear(); // the run's page is written at its end
  chosen.timeLine = timeLine;
  return chosen;
}

/// Of the training step.
FunctionOptions Trainer::stepFunction() {
  FunctionOptions chosen = function(stepInputNames(dropout), {"loss", "norm"});
  chosen.ranks = ranks.handle();
  chosen.fastReduce = options.fastReduce;
  chosen.zero = options.zero;
  chosen.compiledStep = options.stepFile;
  return chosen;
}

/// Opens the folder of checkpoints and, for a run that goes on, sets `state`; returns what the user should know.
std::vector<std::string> Trainer::prepareCheckpoints(const std::optional<ModelFolder> &folder) {
  std::vector<std::string> said;
  if (options.checkpointFolder.empty() && ranks.count() == 1)
    return said;
  state = describeRunState(options, config, sequence, source, adapter, folder, std::string(device.kind()));
  RankFacts facts = factsOf(state);
  facts["'--zero'"] = fmt::to_string(options.zero); // not of the run: others may go on with another
  ranks.requireEqual(facts);
  if (options.checkpointFolder.empty())
    return said;
  if (ranks.isFirst()) { // which alone has the folder
    checkpoints.emplace(options.checkpointFolder, options.keepCheckpoints, options.resume, state,
                        [&](std::string_view text) { said.emplace_back(text); });
    state = checkpoints->state();
  }
  shareProgress(ranks, state);
  elapsed = state.seconds.value_or(0);
  return said;
}

/// What lives from step to step beside the trained parameters.
std::vector<State> Trainer::keptStates() const {
  std::vector<State> states = optimizer->states();
  states.insert(states.end(), step.lossScaling().begin(), step.lossScaling().end());
  return states;
}

void Trainer::prepareEvaluation() {
  if (options.evalEvery == 0)
    return;
  if (!options.evalFile.empty()) {
    evaluationSource.emplace(std::vector{options.evalFile}, config.vocabulary(), std::vector{options.evalText});
    split.heldOut = {0, evaluationSource->size()};
  }
  evaluation.emplace(model, evaluationSource ? *evaluationSource : source, split.heldOut, options.batch, sequence,
                     options.evalBatches, options.packsExamples, function({"tokens", "targets"}, {"loss"}), ranks);
  log.message(fmt::format("held out: {} tokens of {}, {} batches of them every {} steps", split.heldOut.count,
                          (evaluationSource ? *evaluationSource : source).name(), evaluation->batches(),
                          options.evalEvery));
}

std::vector<Array> Trainer::stepArguments(double rate, int64_t index) const {
  std::vector<Array> arguments = {inputs.tokens, inputs.targets, Array(float(rate)), Array(float(index + 1))};
  if (dropout.any()) // a function of the step, so that a resumed run has the same masks
    arguments.push_back(Array::scalar(int32_t(randomBits(options.seed, streamOf("dropout"), uint64_t(index)) >> 33)));
  return arguments;
}

void Trainer::describeRun() {
  log.message(fmt::format("model {}: {:.2f} M parameters, {}", options.model, double(parameterCount(config)) / 1e6,
                          config.describe()));
  if (const std::string text = dropoutText(options, config); !text.empty())
    log.message(text);
  if (options.parameters != runtime::DType::f32)
    log.message(fmt::format("weights and moments in {}, updates rounded at random", runtime::name(options.parameters)));
  if (adapter)
    log.message(fmt::format("adapter: {}, {:.2f} M values are trained", adapter->describe(),
                            double(model.trainedCount()) / 1e6));
  if (source.format() == TokenFormat::Text && config.vocabulary() > 256)
    log.warning(
        fmt::format("{} is read as text, whose bytes are taken as tokens, but the model has a vocabulary of {}; "
                    "a .bin file of its tokens is expected, or --vocab=256",
                    source.name(), config.vocabulary()));
  if (const std::string text = ranks.describe(*options.lanes); !text.empty())
    log.message(text + (options.zero > 0 ? fmt::format(", states in parts (--zero={})", options.zero) : ""));
  if (!options.zeroReason.empty())
    log.message(options.zeroReason);
  const std::string several = options.accumulate > 1 ? fmt::format("{} x ", options.accumulate) : "";
  log.message(fmt::format("data {}: {} tokens ({}), batches of {}{} x {} in {} order", source.name(), source.size(),
                          describe(source.format()), several, options.batch, sequence, describe(options.order)));
  if (batches.examples())
    log.message(batches.examples()->describe());
}

static std::string cacheWord(const tcc::CompileSummary &compiled) {
  return compiled.fromCache ? "hit" : compiled.cache.starts_with("miss") ? "miss" : "off";
}

void Trainer::compileStep() {
  log.message(options.stepFile.empty() ? "compiling the training step …" : "loading the training step …");
  step.prepare(stepArguments(0, 0));
  ranks.requireEqual(factsOf(step.executable()->plan()));
  const tcc::CompileSummary &compiled = step.lastCompile();
  log.compiled({.ops = compiled.capturedOps,
                .kernels = compiled.kernels,
                .matmuls = compiled.matmuls,
                .plannedBytes = compiled.plannedBytes,
                .seconds = compiled.totalMs / 1e3,
                .cache = cacheWord(compiled),
                .cacheReason = compiled.cache});
  if (compiled.recomputedOps)
    log.message(fmt::format("recomputes {} ops instead of keeping values: predicted time {:.0f} % more",
                            compiled.recomputedOps, 100 * compiled.recomputedShare));
  if (!device.isGpu())
    checkMemory("a smaller --batch or --seq is needed: the training step takes", double(compiled.plannedBytes));
  summary.compileSeconds = compiled.totalMs / 1e3;
  summary.cache = cacheWord(compiled);
  summary.kernels = compiled.kernels;
  summary.matmuls = compiled.matmuls;
  summary.plannedBytes = compiled.plannedBytes;
}

bool Trainer::isDue(int64_t every) const {
  return every > 0 && (state.step % every == 0 || isOver());
}

/// Whether what follows needs the states as this step leaves them.
bool Trainer::endsHere() const {
  return isOver() || (evaluation && isDue(options.evalEvery)) || isDue(options.hashEvery) ||
         (!options.checkpointFolder.empty() && isDue(options.checkpointEvery)); // on all ranks alike
}

/// The batch of step `index`; what the step waits for it is counted.
void Trainer::readBatch(int64_t index) {
  const int64_t begin = runtime::Profiler::now();
  if (options.prefetches)
    prefetched.read(index, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  else
    batches.read(index, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  const int64_t end = runtime::Profiler::now();
  waitedNs += end - begin;
  if (timeLine)
    timeLine->record({"wait for batch", "data", begin, end, {{"step", index}}});
}

StartedStep Trainer::startStep() {
  StartedStep next{.index = state.step, .begin = Clock::now()};
  readBatch(next.index);
  next.rate = options.schedule.rate(next.index, elapsed);
  profile.beforeStep(step, times.count());
  reportStep(next.index);
  const std::vector<Array> results = step.call(stepArguments(next.rate, next.index));
  next.loss = results[0];
  next.norm = results[1];
  ++state.step;
  return next;
}

/// On a device that works beside the host, a step's loss is read while the next one runs.
void Trainer::trainStep() {
  const runtime::TraceScope traced(timeLine, "training step", "train", {{"step", state.step}});
  if (timeLine)
    timeLine->count("tensors", runtime::Profiler::now(), runtime::countedLiveBytes());
  StartedStep next = startStep();
  finishStarted();
  started = std::move(next);
  if (!device.isGpu() || endsHere())
    finishStarted();
}

void Trainer::finishStarted() {
  if (const std::optional<StartedStep> before = std::exchange(started, std::nullopt))
    finishStep(*before);
}

/// Clocks and signals are a rank's own; what the run does next must be the same on all.
void Trainer::agreeOnMoment() {
  const RunRanks::Moment agreed = ranks.agree({elapsed, stop ? stop->signal() : 0});
  elapsed = agreed.elapsed;
  stopSignal = int(agreed.signal);
}

/// Waits for the step's results and logs it.
void Trainer::finishStep(const StartedStep &done) {
  const int64_t index = done.index;
  const double loss = done.loss.item(), norm = done.norm.item(), rate = done.rate;
  const Clock::time_point begin = std::max(done.begin, lastFinished);
  lastFinished = Clock::now();
  const double ms = std::chrono::duration<double>(lastFinished - begin).count() * 1e3;
  times.add(ms);
  elapsed += ms / 1e3;
  agreeOnMoment();
  if (summary.firstStepSeconds == 0)
    summary.firstStepSeconds = summary.compileSeconds + ms / 1e3;
  const bool isNewest = index + 1 == state.step;
  if (index == 0)
    state.lossFirst = loss;
  state.lossLast = loss;
  const bool isSkipped = !std::isfinite(loss) || !std::isfinite(norm);
  skippedInARow = isSkipped ? skippedInARow + 1 : 0;
  if (isSkipped)
    if (state.skipped++ == 0)
      log.message(
          fmt::format("step {}: loss {} with gradient norm {}, so its update was left out ({})", index, loss, norm,
                      step.lossScaling().empty() ? "a smaller --lr may help" : "the loss is scaled by half as much"));
  StepRecord record{.step = index,
                    .loss = loss,
                    .ms = ms,
                    .tokensPerSecond = double(stepTokens()) / ms * 1e3,
                    .learningRate = rate,
                    .norm = norm,
                    .tokens = (index + 1) * stepTokens(),
                    .elapsed = elapsed,
                    .skipped = state.skipped,
                    .averageTokensPerSecond = double(stepTokens()) / times.meanMs() * 1e3};
  if (times.count() == 1) // each step uses the same memory
    summary.peakBytes = step.executable()->peakBytes();
  record.plannedBytes = summary.plannedBytes;
  record.countedBytes = summary.peakBytes;
  if (isNewest && evaluation && isDue(options.evalEvery)) {
    const runtime::TraceScope traced(timeLine, "evaluate", "train", {{"step", index}});
    record.validationLoss = summary.validationLoss = evaluation->loss();
  }
  if (isNewest && isDue(options.hashEvery))
    for (const Parameter &parameter : model.trained())
      record.parameterHashes.emplace_back(
          parameter.name(),
          checksumOf({static_cast<const std::byte *>(parameter.rawForReading()), size_t(parameter.bytes())}));
  if (!record.parameterHashes.empty())
    ranks.requireEqual(factsOf(record)); // replicas that part have no bits to answer for
  if (peakFlops > 0)
    record.machineShare = flopsPerToken * record.averageTokensPerSecond / peakFlops;
  if (record.machineShare > 1 && !saidAboveLimit) {
    saidAboveLimit = true;
    log.message("!: faster than the machine's peak, which was measured while it was busy; tcc --calibrate measures it "
                "again");
  }
  log.step(record);
  pictures.add(record);
}

/// A checkpoint that cannot be written is no reason to end a run. States that are kept in parts are put together first,
/// for which all ranks come here; they know then whether the first one has written it.
void Trainer::writeCheckpoint() {
  const bool isTogether = options.zero > 0 && ranks.count() > 1;
  if (options.checkpointFolder.empty() || (!checkpoints && !isTogether) || writtenStep == state.step)
    return;
  if (options.schedule.length.seconds)
    state.seconds = elapsed;
  const BusyRank busy;
  const runtime::TraceScope traced(timeLine, "write checkpoint", "train", {{"step", state.step}});
  const std::vector<State> kept = wholeStates(keptStates(), ranks.handle().get());
  if (checkpoints) {
    try {
      checkpoints->write(state, model, kept, initialConfig, options.initFolder, savedFiles);
      writtenStep = state.step;
    } catch (const Error &error) {
      log.warning(fmt::format("no checkpoint of {} steps: {}; the run goes on", state.step, error.what()));
    }
  }
  if (isTogether)
    ranks.share(&writtenStep, sizeof writtenStep);
}

void Trainer::trainAll() {
  const int64_t firstStep = state.step;
  try {
    agreeOnMoment();
    while (!isOver() && !stopSignal && !hasDiverged()) {
      trainStep();
      if (started) // nothing waits for the step, which has agreed on nothing yet
        agreeOnMoment();
      if (!started && isDue(options.checkpointEvery))
        writeCheckpoint();
    }
    finishStarted();
  } catch (const Error &) {
    if (device.isGpu() && device.device->isClosed() && writtenStep > 0)
      log.warning(
          fmt::format("the GPU is lost; the same command with --resume goes on after step {}", writtenStep - 1));
    throw;
  }
  if (state.step > firstStep && !hasDiverged()) // older checkpoints are worth more than the state that diverged
    writeCheckpoint();
}

/// Why the run ends: where the values of its last step stop being finite.
std::string Trainer::divergence() {
  const int64_t last = state.step - 1;
  std::string where;
  try {
    where = step.findNonFinite(stepArguments(options.schedule.rate(last, elapsed), last), options.findNan);
    if (where.empty())
      where = "on the CPU every value of this step is finite";
    else
      where = "first not finite: " + where + (options.findNan ? "" : " (--find-nan names the op and its line)");
  } catch (const Error &error) {
    where = error.what();
  }
  return divergedText(options, skippedInARow, last, where, writtenStep);
}

/// The run's figures, while the step's executable is the only one.
void Trainer::finish() {
  summary.model = options.model;
  summary.config = options.configFile;
  summary.lossFirst = state.lossFirst;
  summary.lossLast = state.lossLast;
  summary.batch = options.batch;
  summary.seq = sequence;
  summary.dtype = runtime::name(options.products);
  summary.stepMsMedian = times.medianMs();
  if (summary.stepMsMedian > 0)
    summary.tokensPerSecond = double(stepTokens()) / summary.stepMsMedian * 1e3;
  summary.recompiles = step.counters().cache.recompiles;
  const std::shared_ptr<runtime::Executable> executable = step.executable();
  summary.threads = executable->threads();
  if (const auto target = executable->metadata().find("target"); target != executable->metadata().end())
    summary.target = target->second;
  summary.peakBytes = executable->peakBytes();
  // The better of two measurements, since the machine may be shared: a peak that is too low would flatter the figure.
  if (ranks.isFirst())
    peakFlops = std::max(peakFlops, measurePeak(options, device));
  if (peakFlops > 0 && summary.stepMsMedian > 0) {
    try {
      summary.mfu = modelFlopsUse(flopsPerToken, summary.tokensPerSecond, peakFlops);
    } catch (const Error &error) {
      log.message(std::string("no share of the machine's peak: ") + error.what());
    }
  }
  if (const std::string table = profile.finish(step); !table.empty()) {
    log.message(table);
    log.message(fmt::format("a step waited {:.3f} ms for its batch",
                            double(waitedNs) * 1e-6 / double(std::max<int64_t>(times.count(), 1))));
  }
  log.finish(summary, elapsed);
  if (!hasDiverged())
    writePage("");
  log.message(
      fmt::format("memory: {} bytes planned, {} bytes counted at the peak", summary.plannedBytes, summary.peakBytes));
  if (ranks.count() > 1 && options.zero > 0) {
    const double own[] = {double(summary.plannedBytes), double(summary.peakBytes)};
    std::string text;
    for (const std::vector<double> &bytes : ranks.gather(own))
      text += fmt::format("{} {:.0f} of {:.0f}", text.empty() ? "" : ",", bytes[1], bytes[0]);
    log.message("bytes counted of those planned, by rank:" + text);
  }
  if (state.skipped > 0)
    log.message(fmt::format("{} of {} updates were left out, their loss or gradient norm was not finite", state.skipped,
                            state.step));
}

/// The weights under the names of the folder that training began with.
std::vector<NamedTensor> Trainer::savedTensors() const {
  std::vector<NamedTensor> tensors = model.named();
  for (size_t i = 0; i < initialNames.size(); ++i)
    tensors[i].name = initialNames[i];
  return tensors;
}

void Trainer::save() {
  if (options.saveFolder.empty())
    return;
  const runtime::TraceScope traced(timeLine, "save weights", "train");
  if (adapter) {
    writeAdapterFolder(options.saveFolder, config, *adapter, model.named(), options.initFolder, initialConfig);
    writeTokenizerFiles(options.saveFolder, savedFiles);
  } else {
    writeModelFolder(options.saveFolder, config, savedTensors(), initialConfig, savedFiles);
  }
  log.message(fmt::format("wrote the {} to {}", adapter ? "adapter" : "weights", options.saveFolder));
}

void Trainer::sample(std::span<const int32_t> prompt) {
  const runtime::TraceScope traced(timeLine, "sample", "train");
  TextGenerator generator(model, sequence, function({}, {}), options.cachesKeys);
  const std::vector<int32_t> text = generator.generate(prompt, options.sampleTokens, samplingOptions(options));
  log.message("sample:");
  std::fputs((renderText(text, config.vocabulary(), tokenizer) + "\n").c_str(), output);
  std::fflush(output);
}

int Trainer::runAll() {
  const std::vector<int32_t> prompt = promptTokens(options.prompt, config.vocabulary(), tokenizer);
  describeRun();
  if (!options.saveFolder.empty())
    prepareFolder(options.saveFolder); // before the work, not after it
  batches.read(0, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  if (!options.emitGraph.empty()) {
    writeStepGraph(options.emitGraph, step, stepArguments(1e-3, 0));
    log.message(fmt::format("wrote the training step to {}", options.emitGraph));
  }
  if (!options.dumpGrads.empty()) {
    dumpGradients(options.dumpGrads, model, inputs.tokens, inputs.targets, function({}, {}));
    log.message(fmt::format("wrote the first step's gradients to {}", options.dumpGrads));
  }
  if (options.checkDevice)
    log.message(device.isGpu() ? step.checkDevice(stepArguments(options.schedule.rate(state.step, elapsed), state.step))
                               : "--check-device: the run is on the CPU, there is nothing to check");
  if (options.schedule.length.steps == 0) {
    save();
    return log.complete() ? 0 : 1;
  }
  summary.params = parameterCount(config);
  if (ranks.isFirst())
    peakFlops = measurePeak(options, device);
  compileStep();
  int signal = 0;
  { // a signal that comes later has nothing left to save
    stop.emplace(options.quiet);
    trainAll();
    finish();
    if (!hasDiverged())
      save();
    pictures.draw(title());
    signal = stopSignal;
    stop.reset();
  }
  if (hasDiverged()) {
    if (ranks.isFirst()) {
      const BusyRank busy;
      const std::string why = divergence();
      log.error(why);
      writePage(why);
    }
    char isSaid = 1;
    ranks.share(&isSaid, sizeof isSaid); // the end of another rank would end the first one before it has said why
    return 1;
  }
  if (options.sampleTokens > 0)
    sample(prompt);
  if (signal) {
    if (ranks.isFirst())
      log.warning(stoppedText(signal, state.step, checkpoints.has_value(), writtenStep == state.step));
    return 128 + signal;
  }
  log.message(suggestions(options));
  return log.complete() ? 0 : 1;
}

/// A run that ends by an error has ended, too.
int Trainer::run() {
  int status = 1;
  try {
    status = runAll();
  } catch (const Error &error) {
    pictures.finish(status, summary, elapsed);
    showFailure(error.what());
    throw;
  }
  pictures.finish(status, summary, elapsed);
  return status;
}

/// What --profile and --report have of a run that an error ends: how far it came.
void Trainer::showFailure(const std::string &error) {
  profile.finish(step);
  try {
    writePage(error);
  } catch (const Error &) { // that of the run is said
  }
}

void Trainer::writePage(const std::string &error) {
  if (!options.reportFolder.empty())
    step.writeReport(options.reportFolder, stepArguments(0, 0),
                     {.profile = &profile.recorded(), .log = log.lines(), .error = error});
}

} // namespace

int train(const TrainOptions &given, std::FILE *output, std::shared_ptr<runtime::Ranks> others) {
  RunRanks ranks(std::move(others));
  TrainOptions used = optionsOfRank(given, ranks);
  if (ranks.isFirst())
    findStartFolders(used);
  for (std::string *text : {&used.initFolder, &used.adapterFolder, &used.model}) // a run may go on meanwhile
    *text = ranks.share(*text);
  const TrainOptions options = used;
  if (ranks.isFirst())
    checkRunFiles(options);
  bool isFirstDone = true; // with files that tokenizers leave
  if (!ranks.isFirst())
    ranks.share(&isFirstDone, sizeof isFirstDone);
  RunTrace trace(options);
  std::optional<runtime::TraceScope> reading(std::in_place, trace.get(), "read data", "data");
  const std::optional<Tokenizer> tokenizer = runTokenizer(options);
  if (!options.dumpTokens.empty()) {
    if (ranks.count() > 1)
      throw Error("--dump-tokens is done by one process: run it without --ranks or mpirun");
    dumpTokens(options, *tokenizer);
    return 0;
  }
  tokeniseData(used, tokenizer ? &*tokenizer : nullptr);
  if (tokenizer)
    applyTokenizer(used, *tokenizer);
  if (ranks.isFirst())
    ranks.share(&isFirstDone, sizeof isFirstDone);
  reading.reset();
  std::optional<ModelFolder> folder;
  if (!options.initFolder.empty())
    folder.emplace(options.initFolder);
  RunDevice device = chooseDevice(options.device, options.tuning);
  chooseProducts(used, device, ranks.isFirst());
  ranks.share(&used.products, sizeof used.products); // what a machine gains is measured, on each anew
  if (used.choosesZero && ranks.count() > 1) {
    if (ranks.isFirst()) {
      used.ranks = ranks.count();
      used.zeroReason = chooseZero(used, device, folder, stepMemory(used, device, ranksHere(ranks)));
    }
    ranks.share(&used.zero, sizeof used.zero);
  }
  if (used.largestBatch) {
    used.batch = largestBatch(used, device, folder);
    used.memoryLimit = 0; // the batch was chosen for it
  }
  return Trainer(used, std::move(device), ranks, std::move(folder), tokenizer ? &*tokenizer : nullptr, output,
                 trace.get())
      .run();
}

} // namespace tcc::models
