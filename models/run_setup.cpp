#include "models/run_setup.h"
#include "frontend/quotes.h"
#include "models/counter_random.h"
#include "models/examples.h"
#include "models/tokenized_text.h"
#include "models/tokenizer_training.h"
#include "runtime/device/device.h"
#include "runtime/dtype.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <utility>

namespace tcc::models {

void checkMemory(const std::string &what, double bytes) {
  const auto present = double(runtime::makeCpuDevice()->memoryBytes());
  if (bytes > present)
    throw Error(fmt::format("{} {:.1f} GB, but this machine has {:.1f} GB", what, bytes / 1e9, present / 1e9));
}

void checkSequence(const TrainOptions &options, const ModelConfig &config) {
  if (options.sequence && *options.sequence > config.positions())
    throw Error(fmt::format("--seq={}, but the model of {} has {} positions, the longest sequence", *options.sequence,
                            options.initFolder, config.positions()));
}

ModelConfig trainedConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder) {
  const ModelConfig config = folder ? folder->config() : options.config;
  checkSequence(options, config);
  if (ModelConfig other = config; options.dropout.value_or(0) > 0 && !other.setDropout(*options.dropout))
    throw Error(
        fmt::format("--dropout is of GPT-2 and the Llama family, the model of {} has none", options.initFolder));
  return config;
}

ModelConfig fittingConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder) {
  const ModelConfig config = trainedConfig(options, folder);
  const bool frozen = options.adapts();
  checkMemory(frozen ? "weights need" : "weights and the optimizer's two moments need",
              (frozen ? 1.0 : 3.0) * double(runtime::byteSize(options.parameters) * parameterCount(config)));
  return config;
}

std::optional<ModelFolder> openModelFolder(const TrainOptions &options) {
  return options.initFolder.empty() ? std::nullopt : std::optional<ModelFolder>(std::in_place, options.initFolder);
}

std::optional<AdapterFolder> openAdapter(const TrainOptions &options, const ModelConfig &config) {
  if (options.adapterFolder.empty())
    return std::nullopt;
  return std::optional<AdapterFolder>(std::in_place, options.adapterFolder, config);
}

std::optional<AdapterConfig> trainedAdapter(const TrainOptions &options, const ModelConfig &config,
                                            const std::optional<AdapterFolder> &folder) {
  if (!folder) {
    if (options.loraRank == 0)
      return std::nullopt;
    return AdapterConfig{options.loraRank, options.loraAlpha.value_or(16), adaptableLayers(config)};
  }
  const AdapterConfig &adapter = folder->config();
  if (options.loraRank > 0 && options.loraRank != adapter.rank)
    throw Error(fmt::format("--lora={}, but the adapter of {} has rank {}", options.loraRank, options.adapterFolder,
                            adapter.rank));
  if (options.loraAlpha && *options.loraAlpha != adapter.alpha)
    throw Error(fmt::format("--lora-alpha={}, but the adapter of {} has alpha {}", *options.loraAlpha,
                            options.adapterFolder, adapter.alpha));
  return adapter;
}

namespace {

std::unique_ptr<optim::Optimizer> namedOptimizer(const TrainOptions &options, std::vector<Parameter> parameters) {
  const double decay = options.weightDecay, clip = options.clipNorm;
  const optim::AdamwSettings adamw{
      .beta1 = options.beta1, .beta2 = options.beta2, .eps = options.epsilon, .weightDecay = decay, .clip = clip};
  const std::string &name = options.optimizer;
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(
        std::move(parameters), optim::SgdSettings{.momentum = options.beta1, .weightDecay = decay, .clip = clip});
  if (name == "lion")
    return std::make_unique<optim::Lion>(
        std::move(parameters),
        optim::LionSettings{.beta1 = options.beta1, .beta2 = options.beta2, .weightDecay = decay, .clip = clip});
  if (name == "adafactor")
    return std::make_unique<optim::Adafactor>(std::move(parameters),
                                              optim::AdafactorSettings{.weightDecay = decay, .clip = clip});
  if (name == "muon")
    return std::make_unique<optim::Muon>(std::move(parameters), optim::MuonSettings{.rest = adamw});
  return std::make_unique<optim::Adamw>(std::move(parameters), adamw);
}

} // namespace

std::unique_ptr<optim::Optimizer> makeOptimizer(const TrainOptions &options, std::vector<Parameter> parameters) {
  std::unique_ptr<optim::Optimizer> optimizer = namedOptimizer(options, std::move(parameters));
  if (options.lanes.value_or(1) > 1)
    optimizer->setNormOrder(optim::NormOrder::rows);
  optimizer->setRoundingSeed(uint32_t(randomBits(options.seed, streamOf("rounding"), 0) >> 34));
  return optimizer;
}

Function trainingFunction(const TrainOptions &options, const Model &model, optim::Optimizer &optimizer,
                          FunctionOptions function) {
  if (options.hasExamples && options.lanes.value_or(1) > 1)
    throw Error(
        "examples (.jsonl) are trained with one lane: lanes would weigh alike, however many tokens each learns");
  return compile(
      "training_step",
      [&model, &optimizer, rates = trainedDropout(options, model.config()), accumulate = options.accumulate,
       lanes = options.lanes.value_or(1), countsTargets = options.hasExamples](std::span<const Tensor> in) {
        const TrainingDropout dropout{rates, in.size() > 4 ? in[4] : Tensor()};
        const ModelStep results =
            trainingStep(model, optimizer, in[0], in[1], in[2], in[3], accumulate, dropout, lanes, countsTargets);
        return std::vector{results.loss, results.norm};
      },
      std::move(function));
}

void learnTokenizer(const TrainOptions &options) {
  std::string text;
  for (const std::string &path : options.dataFiles) {
    if (isExampleFile(path) || isTokenFile(path))
      throw Error(fmt::format("{}: holds {}; --train-tokenizer learns from a text", path,
                              isExampleFile(path) ? "examples" : "tokens"));
    const MappedFile file(path);
    text += file.text();
  }
  const int64_t size = trainTokenizer(options.tokenizerFolder, text, options.trainVocabulary);
  if (!options.quiet)
    fmt::print(stderr, "learned a tokenizer of {} tokens{} from {}: {}\n", size,
               size < options.trainVocabulary ? ", all that the text has," : "", options.dataFiles.front(),
               options.tokenizerFolder);
}

DropoutRates trainedDropout(const TrainOptions &options, const ModelConfig &config) {
  ModelConfig used = config;
  if (options.dropout)
    used.setDropout(*options.dropout);
  return used.dropout();
}

std::string dropoutText(const TrainOptions &options, const ModelConfig &config) {
  const DropoutRates own = config.dropout(), used = trainedDropout(options, config);
  if (used != own)
    return fmt::format("dropout {} by --dropout, not the {} of {}", used.describe(), own.describe(),
                       inFolder(options.initFolder, "config.json"));
  if (options.dropout || !used.any())
    return used.any() ? fmt::format("dropout {}", used.describe()) : "";
  return fmt::format("dropout {}, the rates of {} (--dropout=0 trains without)", used.describe(),
                     inFolder(options.initFolder, "config.json"));
}

std::vector<std::string> stepInputNames(const DropoutRates &dropout) {
  std::vector<std::string> names = {"tokens", "targets", "lr", "step"};
  if (dropout.any())
    names.emplace_back("seed");
  return names;
}

std::vector<Array> emptyStepInputs(int64_t rows, int64_t sequence, const DropoutRates &dropout) {
  const Shape shape{rows, sequence};
  std::vector<Array> inputs = {Array(shape, DType::i32), Array(shape, DType::i32), Array(0.f), Array(1.f)};
  if (dropout.any())
    inputs.push_back(Array::scalar(int32_t(0)));
  return inputs;
}

TrainOptions withoutData(const TrainOptions &given) {
  TrainOptions options = given;
  options.dataFiles.clear();
  options.evalFile.clear();
  if (!options.tokenizerFolder.empty())
    applyTokenizer(options, Tokenizer(options.tokenizerFolder)); // where no size of the vocabulary is given, its own
  return options;
}

HeldOutSplit splitData(const TrainOptions &options, const TokenSource &source, int64_t sequence) {
  if (options.evalEvery == 0 || !options.evalFile.empty())
    return {{0, source.size()}, {}};
  return splitHeldOut(source, options.evalShare, options.accumulate * options.batch, sequence);
}

namespace {

bool areTokens(const TrainOptions &options) {
  return std::ranges::all_of(options.dataFiles, isTokenFile) &&
         (options.evalFile.empty() || isTokenFile(options.evalFile));
}

void say(const TrainOptions &options, const std::string &text) {
  if (!options.quiet)
    fmt::print(stderr, "{}\n", text);
}

} // namespace

std::optional<Tokenizer> runTokenizer(const TrainOptions &options) {
  if (!options.tokenizerFolder.empty()) {
    if (options.trainVocabulary && !(options.resume && Tokenizer::isIn(options.tokenizerFolder)))
      learnTokenizer(options);
    return Tokenizer(options.tokenizerFolder);
  }
  if (options.initFolder.empty())
    return std::nullopt;
  try {
    std::optional<Tokenizer> tokenizer = folderTokenizer(options.initFolder);
    if (tokenizer && !areTokens(options))
      say(options, fmt::format("texts are read by the tokenizer of {}", options.initFolder));
    return tokenizer;
  } catch (const Error &error) {
    if (!areTokens(options))
      throw;
    say(options, fmt::format("note: {}; the data are tokens already", error.what()));
    return std::nullopt;
  }
}

TokenizerFiles savedTokenizer(const TrainOptions &options, const ModelConfig &config, TokenFormat format) {
  const bool isGiven = !options.tokenizerFolder.empty();
  TokenizerFiles made;
  if (const std::string &folder = isGiven ? options.tokenizerFolder : options.initFolder; !folder.empty())
    made = tokenizerFilesOf(folder, config.positions());
  made.replaces = isGiven;
  const bool ofBytes = format == TokenFormat::Text || format == TokenFormat::Examples; // without a tokenizer
  if (made.files.empty() && ofBytes && config.vocabulary() >= 256)
    made = byteTokenizerFiles(config.positions());
  return made;
}

void tokeniseData(TrainOptions &options, const Tokenizer *tokenizer) {
  const auto report = [&](std::string_view text) { say(options, std::string(text)); };
  const ExampleReader reader{tokenizer, options.tokenizerFolder.empty() ? options.initFolder : options.tokenizerFolder};
  const auto tokenise = [&](std::string &path, std::string &text) {
    if (isExampleFile(path))
      text = std::exchange(path, exampleFile(path, reader, report));
    else if (tokenizer && !path.empty() && !isTokenFile(path))
      text = std::exchange(path, tokenizedFile(path, *tokenizer, report));
  };
  tokenise(options.evalFile, options.evalText);
  options.dataTexts.resize(options.dataFiles.size());
  for (size_t i = 0; i < options.dataFiles.size(); ++i)
    tokenise(options.dataFiles[i], options.dataTexts[i]);
}

void applyTokenizer(TrainOptions &options, const Tokenizer &tokenizer) {
  if (!options.initFolder.empty() || options.vocabularyGiven)
    return;
  std::visit([&](auto &kind) { kind.vocab = tokenizer.vocabulary(); }, options.config.kind);
  checkConfig(options.config);
}

void dumpTokens(const TrainOptions &options, const Tokenizer &tokenizer) {
  std::vector<int32_t> ids;
  for (const std::string &path : options.dataFiles) {
    if (isExampleFile(path))
      throw Error(fmt::format("{}: holds examples; --dump-tokens writes a text's tokens", path));
    const MappedFile text(path);
    const std::vector<int32_t> made = tokenizer.encode(text.text());
    if (made.empty())
      throw Error(fmt::format("{}: the file is empty, it has no tokens", path));
    ids.insert(ids.end(), made.begin(), made.end());
  }
  writeTokenShard(options.dumpTokens, ids);
  if (!options.quiet)
    fmt::print(stderr, "wrote {} tokens of {} to {}\n", ids.size(), options.dataFiles.front(), options.dumpTokens);
}

RunState describeRunState(const TrainOptions &options, const ModelConfig &config, int64_t sequence,
                          const TokenSource &data, const std::optional<AdapterConfig> &adapter,
                          const std::optional<ModelFolder> &base, const std::string &device) {
  const auto text = [](const auto &value) { return fmt::format("{}", value); };
  RunState state;
  state.identity = {{"model", config.describe()},
                    {"optimizer", options.optimizer},
                    {"seed", text(options.seed)},
                    {"dropout", trainedDropout(options, config).describe()},
                    {"batch", fmt::format("{} x {} x {}", options.accumulate, options.batch, sequence)},
                    {"order", std::string(describe(options.order))},
                    {"data", fmt::format("{} tokens, checksum {}", data.size(), data.fingerprint())},
                    {"held-out share", text(options.evalEvery && options.evalFile.empty() ? options.evalShare : 0)}};
  if (data.format() == TokenFormat::Examples && !options.packsExamples)
    state.identity["--no-packing"] = "given";
  if (options.parameters != runtime::DType::f32)
    state.identity["--params"] = runtime::name(options.parameters);
  if (options.lanes.value_or(1) > 1)
    state.identity["lanes"] = text(*options.lanes) + (options.fastReduce ? ", --reduce=fast" : "");
  if (adapter) {
    state.identity["adapter"] = adapter->describe();
    state.identity["frozen weights"] = base->fingerprint();
  }
  const Schedule &schedule = options.schedule;
  const char *kinds[] = {"cosine", "constant", "trapezoid"};
  state.settings = {{"--lr", text(schedule.peak)},
                    {"--schedule", kinds[size_t(schedule.kind)]},
                    {"--warmup", text(schedule.warmup)},
                    {"--min-lr", schedule.floor ? text(*schedule.floor) : "the default"},
                    {"--steps", schedule.length.steps ? text(*schedule.length.steps) : "none"},
                    {"--minutes", schedule.length.seconds ? text(*schedule.length.seconds / 60) : "none"},
                    {"--weight-decay", text(options.weightDecay)},
                    {"--beta1", text(options.beta1)},
                    {"--beta2", text(options.beta2)},
                    {"--clip", text(options.clipNorm)},
                    {"--dtype", std::string(options.productName())},
                    {"-O", options.leastMemory ? "s" : text(options.level)},
                    {"--device", device}};
  if (!options.configFile.empty())
    state.settings["--config"] = options.configFile;
  return state;
}

std::string stoppedText(int signal, int64_t steps, bool hasCheckpoints, bool isKept) {
  const char *how = isKept           ? "the same command with --resume goes on from there"
                    : hasCheckpoints ? "its checkpoint could not be written; --resume goes on from an older one"
                                     : "nothing to --resume from was kept, which --checkpoint=FOLDER does";
  return fmt::format("stopped by {} after {} steps: {}", signal == SIGINT ? "SIGINT" : "SIGTERM", steps, how);
}

std::string divergedText(const TrainOptions &options, int64_t skipped, int64_t last, const std::string &where,
                         int64_t written) {
  std::string text =
      fmt::format("the run has diverged: loss or gradient norm of {} steps in a row, the last of them step {}, was not "
                  "finite, so their updates were left out (--max-skipped={})\n  {}\n  a smaller --lr or a longer "
                  "--warmup may help; nothing was saved",
                  skipped, last, options.maxSkipped, where);
  if (written > 0)
    text += fmt::format(", --resume goes on after step {}", written - 1);
  return text;
}

std::string suggestions(const TrainOptions &options) {
  std::string text = "what to try next:";
  const auto add = [&](bool untried, const char *line) {
    if (untried)
      text += std::string("\n  ") + line;
  };
  add(options.sampleTokens == 0, "--sample=400             text that the model generates");
  add(options.saveFolder.empty(), "--save=FOLDER            keep the weights; --init=FOLDER goes on from them");
  add(options.evalEvery == 0, "--eval-every=50          the loss on tokens that are held out: does it overfit?");
  add(options.checkpointFolder.empty(),
      "--checkpoint=FOLDER      keep the run; the same command with --resume goes on from there");
  add(options.initFolder.empty() && options.model == "baby", "--model char             a larger model");
  add(options.level != 0, "-O0                      the same step with one kernel per op, for comparison");
  add(options.emitGraph.empty(),
      "--emit-graph=step.graph  the whole step as text; tcc step.graph shows what becomes of it");
  return text;
}

} // namespace tcc::models
