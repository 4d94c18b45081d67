#include "models/trainer.h"
#include "models/gpt2.h"
#include "models/input_error.h"
#include "models/machine_peak.h"
#include "models/run_files.h"
#include "models/stop_request.h"
#include "models/text_generator.h"
#include "models/train_log.h"
#include "runtime/executable.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace tcc::models {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Refuses what is beyond the machine's memory, `what` needs `bytes`; the system would end the program later.
void checkMemory(const std::string &what, double bytes) {
  const double present = double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  if (bytes > present)
    throw InputError(fmt::format("{} {:.1f} GB, but this machine has {:.1f} GB", what, bytes / 1e9, present / 1e9));
}

/// The folder's configuration, or that of the options, checked against the rest of the command line and the machine.
Gpt2Config trainedConfig(const TrainOptions &options, const std::optional<Gpt2Folder> &folder) {
  const Gpt2Config config = folder ? folder->config() : options.config;
  if (options.sequence && *options.sequence > config.sequence)
    throw InputError(fmt::format("--seq={}, but the position table of {} has {} rows, the longest sequence",
                                 *options.sequence, options.initFolder, config.sequence));
  checkMemory("weights and the optimizer's two moments need", 3.0 * sizeof(float) * double(parameterCount(config)));
  return config;
}

optim::AdamwSettings adamwSettings(const TrainOptions &options) {
  optim::AdamwSettings settings;
  settings.beta1 = options.beta1;
  settings.beta2 = options.beta2;
  settings.eps = options.epsilon;
  settings.weightDecay = options.weightDecay;
  settings.clip = options.clipNorm;
  return settings;
}

/// A batch as the step takes it.
struct StepInputs {
  Array tokens, targets;

  StepInputs(int64_t batch, int64_t sequence)
      : tokens({batch, sequence}, DType::i32), targets({batch, sequence}, DType::i32) {}
};

class Trainer {
public:
  Trainer(const TrainOptions &options, std::optional<Gpt2Folder> folder, std::FILE *output)
      : options(options), output(output), config(trainedConfig(options, folder)),
        sequence(options.sequence.value_or(config.sequence)), source(options.dataFile, config.vocab),
        batches(source, options.batch, sequence, options.order, options.seed),
        log({.length = options.schedule.length, .quiet = options.quiet, .jsonFile = options.jsonFile}), model(config),
        optimizer(model.parameters(), adamwSettings(options)),
        step(compile(
            "training_step",
            [this](Tensor tokens, Tensor targets, Tensor lr, Tensor step) {
              const Gpt2Step results = gpt2TrainingStep(model, optimizer, tokens, targets, lr, step);
              return std::pair{results.loss, results.norm};
            },
            functionOptions({"tokens", "targets", "lr", "step"}, {"loss", "norm"}))),
        inputs(options.batch, sequence) {
    if (folder) {
      for (const std::string &note : folder->notes())
        log.message("note: " + note);
      model.load(*folder);
      initialConfig = folder->configText();
    } else {
      model.initialize(options.seed);
    }
  }

  int run();

private:
  FunctionOptions functionOptions(std::vector<std::string> inputNames, std::vector<std::string> outputNames);
  std::vector<int32_t> promptTokens() const;
  void describeRun();
  void emitGraph();
  void dumpGradients();
  void compileStep();
  void trainStep(int64_t index);
  void trainAll(const StopRequest &stop);
  void finish();
  void save();
  void sample(std::span<const int32_t> prompt);
  void suggest();

  const TrainOptions &options;
  std::FILE *output;
  Gpt2Config config;
  int64_t sequence;
  TokenSource source;
  Batches batches;
  TrainLog log;
  Gpt2 model;
  std::string initialConfig; // text of the folder's config.json
  optim::Adamw optimizer;
  Function step;
  StepInputs inputs;

  StepTimes times;
  RunSummary summary;
  double elapsed = 0; // seconds since the first step began
  double peakFlops = 0;
  int64_t stepsDone = 0;
  int64_t skipped = 0; // steps whose update was left out
};

FunctionOptions Trainer::functionOptions(std::vector<std::string> inputNames, std::vector<std::string> outputNames) {
  FunctionOptions function;
  function.inputs = std::move(inputNames);
  function.outputs = std::move(outputNames);
  function.level = options.optimization;
  for (const auto &[pass, enabled] : options.passes)
    function.passes[pass] = enabled;
  function.threads = options.threads;
  function.products = options.dtype;
  function.report = [this](std::string_view text) { log.message(text); };
  return function;
}

/// The prompt as tokens: bytes where the vocabulary is bytes; else the text starts with the vocabulary's last token,
/// which for GPT-2 is the end of the text before.
std::vector<int32_t> Trainer::promptTokens() const {
  if (config.vocab != 256) {
    if (options.prompt != TrainOptions{}.prompt)
      throw InputError(
          fmt::format("--prompt is text, but a vocabulary of {} has no bytes; only one of 256 has", config.vocab));
    return {int32_t(config.vocab - 1)};
  }
  std::vector<int32_t> tokens;
  for (const char c : options.prompt)
    tokens.push_back(uint8_t(c));
  if (tokens.empty())
    tokens.push_back('\n');
  return tokens;
}

void Trainer::describeRun() {
  log.message(fmt::format("model {}: {} layers, {} heads, width {}, vocabulary {}, {:.2f} M parameters", options.model,
                          config.layers, config.heads, config.width, config.vocab,
                          double(parameterCount(config)) / 1e6));
  if (source.format() == TokenFormat::Text && config.vocab > 256)
    log.warning(
        fmt::format("{} is read as text, whose bytes are taken as tokens, but the model has a vocabulary of {}; "
                    "a .bin file of its tokens is expected, or --vocab=256",
                    source.path(), config.vocab));
  log.message(fmt::format("data {}: {} tokens ({}), batches of {} x {} in {} order", source.path(), source.size(),
                          describe(source.format()), options.batch, sequence,
                          options.order == Order::Random ? "random" : "sequential"));
}

void Trainer::emitGraph() {
  AtomicFile file(options.emitGraph);
  file.write(step.graph(std::vector<Array>{inputs.tokens, inputs.targets, Array(1e-3f), Array(1.f)}));
  file.commit();
  log.message(fmt::format("wrote the training step to {}", options.emitGraph));
}

/// The gradients of the first batch, by a function of their own that ends before training begins.
void Trainer::dumpGradients() {
  std::vector<std::string> names;
  for (const Parameter &parameter : model.parameters())
    names.push_back(parameter.name());
  Function gradients = compile(
      "gradients", [this](Tensor tokens, Tensor targets) { return gpt2Gradients(model, tokens, targets); },
      functionOptions({"tokens", "targets"}, names));
  const std::vector<Array> values = gradients(inputs.tokens, inputs.targets);
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i)
    tensors.push_back({names[i], {values[i].shape().begin(), values[i].shape().end()}, values[i].data<float>()});
  writeTensors(options.dumpGrads, tensors);
  log.message(fmt::format("wrote the first step's gradients to {}", options.dumpGrads));
}

void Trainer::compileStep() {
  log.message("compiling the training step …");
  step.prepare(std::vector<Array>{inputs.tokens, inputs.targets, Array(0.f), Array(1.f)});
  const tcc::CompileSummary &compiled = step.lastCompile();
  log.compiled({.ops = compiled.capturedOps,
                .kernels = compiled.kernels,
                .matmuls = compiled.matmuls,
                .plannedBytes = compiled.plannedBytes,
                .seconds = compiled.totalMs / 1e3});
  checkMemory("a smaller --batch or --seq is needed: the training step takes", double(compiled.plannedBytes));
  summary.compileSeconds = compiled.totalMs / 1e3;
  summary.kernels = compiled.kernels;
  summary.matmuls = compiled.matmuls;
  summary.plannedBytes = compiled.plannedBytes;
}

void Trainer::trainStep(int64_t index) {
  const Clock::time_point start = Clock::now();
  batches.read(index, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  const Array lr(float(options.schedule.rate(index, elapsed))), number(float(index + 1));
  double loss, norm;
  {
    const std::vector<Array> results = step(inputs.tokens, inputs.targets, lr, number);
    loss = results[0].item();
    norm = results[1].item();
  }
  const double ms = secondsSince(start) * 1e3;
  times.add(ms);
  if (index == 0)
    summary.lossFirst = loss;
  summary.lossLast = loss;
  if (!std::isfinite(loss) || !std::isfinite(norm))
    if (skipped++ == 0)
      log.message(fmt::format("step {}: loss {} with gradient norm {}, so its update was left out (a smaller --lr may "
                              "help)",
                              index + 1, loss, norm));
  log.step({.step = index, .loss = loss, .ms = ms, .tokensPerSecond = double(options.batch * sequence) / ms * 1e3},
           elapsed + ms / 1e3);
}

void Trainer::trainAll(const StopRequest &stop) {
  const Clock::time_point start = Clock::now();
  do {
    trainStep(stepsDone);
    elapsed = secondsSince(start);
    if (stepsDone++ == 0)
      summary.firstStepSeconds = summary.compileSeconds + elapsed;
  } while (!stop.signal() && !options.schedule.length.finished(stepsDone, elapsed));
}

/// The run's figures, while the step's executable is the only one.
void Trainer::finish() {
  summary.model = options.model;
  summary.params = parameterCount(config);
  summary.batch = options.batch;
  summary.seq = sequence;
  summary.dtype = runtime::name(options.dtype);
  summary.stepMsMedian = times.medianMs();
  summary.tokensPerSecond = double(options.batch * sequence) / summary.stepMsMedian * 1e3;
  summary.recompiles = step.counters().cache.recompiles;
  const std::shared_ptr<runtime::Executable> executable = step.executable();
  summary.threads = executable->threads();
  if (const auto target = executable->metadata().find("target"); target != executable->metadata().end())
    summary.target = target->second;
  summary.peakBytes = executable->peakBytes();
  // The better of two measurements, since the machine may be shared: a peak that is too low would flatter the figure.
  peakFlops = std::max(peakFlops, measurePeakFlops(options.threads, options.dtype, 0.1));
  if (peakFlops > 0) {
    try {
      summary.mfu = modelFlopsUse(summary.params, summary.tokensPerSecond, peakFlops);
    } catch (const InputError &error) {
      log.message(std::string("no share of the machine's peak: ") + error.what());
    }
  }
  log.finish(summary, elapsed);
  log.message(
      fmt::format("memory: {} bytes planned, {} bytes counted at the peak", summary.plannedBytes, summary.peakBytes));
  if (skipped > 0)
    log.message(
        fmt::format("{} of {} updates were left out, their loss or gradient norm was not finite", skipped, stepsDone));
}

void Trainer::save() {
  if (options.saveFolder.empty())
    return;
  writeGpt2Folder(options.saveFolder, config, model.named(), initialConfig);
  log.message(fmt::format("wrote the weights to {}", options.saveFolder));
}

void Trainer::sample(std::span<const int32_t> prompt) {
  TextGenerator generator(model, sequence, functionOptions({}, {}));
  const std::vector<int32_t> text = generator.generate(
      prompt, options.sampleTokens, {.temperature = options.temperature, .topK = options.topK, .seed = options.seed});
  log.message("sample:");
  std::fputs((renderTokens(text, config.vocab) + "\n").c_str(), output);
  std::fflush(output);
}

/// What the user has not tried yet.
void Trainer::suggest() {
  log.message("what to try next:");
  if (options.sampleTokens == 0)
    log.message("  --sample=400             text that the model generates");
  if (options.saveFolder.empty())
    log.message("  --save=FOLDER            keep the weights; --init=FOLDER goes on from them");
  if (options.model == "baby")
    log.message("  --model char             a larger model");
  if (options.optimization != 0)
    log.message("  -O0                      the same step with one kernel per op, for comparison");
  if (options.emitGraph.empty())
    log.message("  --emit-graph=step.graph  the whole step as text; tcc step.graph shows what becomes of it");
}

int Trainer::run() {
  const std::vector<int32_t> prompt = promptTokens();
  describeRun();
  if (!options.saveFolder.empty())
    prepareFolder(options.saveFolder); // before the work, not behind it
  batches.read(0, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  if (!options.emitGraph.empty())
    emitGraph();
  if (!options.dumpGrads.empty())
    dumpGradients();
  peakFlops = measurePeakFlops(options.threads, options.dtype, 0.1);
  compileStep();
  int signal = 0;
  { // a signal that comes later has nothing left to save
    const StopRequest stop(options.quiet);
    trainAll(stop);
    finish();
    save();
    signal = stop.signal();
  }
  if (options.sampleTokens > 0)
    sample(prompt);
  if (signal)
    return 128 + signal;
  suggest();
  return log.complete() ? 0 : 1;
}

} // namespace

int train(const TrainOptions &options, std::FILE *output) {
  checkRunFiles(options);
  std::optional<Gpt2Folder> folder;
  if (!options.initFolder.empty())
    folder.emplace(options.initFolder);
  return Trainer(options, std::move(folder), output).run();
}

} // namespace tcc::models
