// Preparation of a run, and its way from the first line to the last.
#include "models/trainer.h"
#include "frontend/quotes.h"
#include "models/counter_random.h"
#include "models/estimate.h"
#include "models/generate.h"
#include "models/launch_ranks.h"
#include "models/run_dumps.h"
#include "models/run_files.h"
#include "models/run_trace.h"
#include "models/start_folders.h"
#include "models/trainer_run.h"
#include "runtime/executable.h"

namespace tcc::models {

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
  if (checkpoints)
    for (const std::string &damage : checkpoints->damaged())
      log.warning(damage);
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
  if (!chosen.device)
    chosen.device = cpu;
  chosen.reportFolder.clear(); // the run's page is written at its end
  chosen.timeLine = timeLine;
  return chosen;
}

/// The options of the training step's function.
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
    log.message(text + (options.zero > 0
                            ? fmt::format(", {} in parts (--zero={})",
                                          options.zero < 3 ? "states" : "states and parameters", options.zero)
                            : ""));
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
  if (!compiled.tuning.empty())
    log.message("tuning: " + compiled.tuning);
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
    std::vector<Array> batch = stepArguments(1e-3, 0);
    batch.erase(batch.begin() + 2, batch.begin() + 4); // rate and step
    dumpGradients(options.dumpGrads, model, dropout, batch, function({}, {}));
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
    peakFlops = peakOfRanks(0);
  compileStep();
  int signal = 0;
  { // a signal that comes later has nothing left to save
    stop.emplace(options.quiet);
    trainAll();
    finish();
    gatherAtTheEnd();
    if (!hasDiverged())
      save();
    pictures.draw(title());
    signal = stopSignal;
    stop.reset();
  }
  if (hasDiverged()) {
    compareReplicas();
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
  return log.complete() && !lacksCheckpoint ? 0 : 1;
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
  std::optional<ModelFolder> folder = openModelFolder(options);
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
