#include "models/options.h"
#include "frontend/quotes.h"
#include "models/examples.h"
#include "models/file_options.h"
#include "models/option_flags.h"
#include "models/option_needs.h"
#include "models/start_folders.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace tcc::models {

namespace {

constexpr const char *examples =
    R"(train_gpt: compiles a GPT-2 training step and trains it on a text or token file.

examples:
  train_gpt --data book.txt                                  a small model on the bytes of a text
  train_gpt --data book.txt --minutes=1 --sample=400         for a minute, then 400 tokens of generated text
  train_gpt --model char --data book.txt --batch 16 --steps 500 --json=log.jsonl
  train_gpt --model gpt2 --data train.bin --batch 4 --seq 256 --steps 20
  train_gpt --config run.yaml --steps 500                    options from a file: lines such as `batch: 16`
  train_gpt --model llama-baby --data book.txt               the same with RMSNorm, rotary embeddings, SwiGLU
  train_gpt --init gpt2/ --data train.bin --seq 256 --save tuned/     from Hugging Face weights and back to such a folder
  train_gpt --data book.txt --eval-every=50 --checkpoint=run --checkpoint-every=100   again with --resume where it stopped
  train_gpt --init=run/step-000001000 --generate=400 --prompt="In the beginning"
  train_gpt --init=run --data more.txt --lr 1e-4             a new run from the weights of that one's newest checkpoint
  train_gpt --model gpt2 --batch 4 --estimate                memory by component, largest batch, least time, hours and price
  train_gpt --model gpt2 --batch 4 --compile-only=step.so    the step as a library for programs in C, with step.h
  train_gpt --data book.txt --params=bf16 --dtype=bf16       half the memory for weights and moments
  train_gpt --data book.txt --optimizer=muon --lr=5e-3       another optimizer
  train_gpt --init gpt2/ --tokenizer gpt2/ --data book.txt --save tuned/     a text by GPT-2's tokens
  train_gpt --data book.txt -O0                              one kernel per op, for comparison
  train_gpt --data book.txt -fno-simplify                    without one pass
)";

constexpr std::string_view statuses =
    R"(
Ctrl-C and SIGTERM end training after the step, with summary, --save and --sample; a second one ends at once.
Exit status: 0; 1 after an error, and where updates diverge (--max-skipped); 2 after a usage error; 130 or 143 after Ctrl-C or SIGTERM.
)";

/// What differs between the presets beside their sizes.
struct TrainingDefaults {
  std::string_view model;
  int64_t batch, steps, warmup; ///< the warm-up of a run that ends by time; else at most a tenth of the steps
  double rate;
};
constexpr TrainingDefaults defaultsTable[] = {
    {"baby", 32, 1000, 100, 2e-3},        {"char", 16, 1000, 20, 1e-3},      {"gpt2", 4, 100, 10, 6e-4},
    {"gpt2-medium", 2, 100, 10, 3e-4},    {"gpt2-large", 1, 100, 10, 2e-4},  {"gpt2-xl", 1, 100, 10, 2e-4},
    {"script-baby", 32, 1000, 100, 2e-3}, {"script-163m", 4, 100, 10, 6e-4}, {"llama-baby", 32, 1000, 100, 2e-3},
    {"llama-160m", 1, 100, 10, 6e-4},     {"modern-124m", 4, 100, 10, 1e-3}};
constexpr double initRate = 3e-4; // weights that are trained already take smaller steps

/// ", did you mean `--width`?" where a declared flag is near.
std::string suggestion(const CLI::App &app, std::string_view flag) {
  const std::string nearest = nearestOption(app, flag);
  return nearest.empty() ? "" : fmt::format(", did you mean `--{}`?", nearest);
}

/// Whether a flag of the compiler changes how a step is made: what is compiled already cannot follow it. --dtype= is
/// part of what the step computes, which is compared anyway.
bool changesCode(std::string_view flag) {
  if (flag == "-fmemory-report")
    return false;
  const auto begins = [&](std::string_view start) { return flag.starts_with(start); };
  return begins("-O") || begins("-f") || begins("-march") || begins("-Rpass") || begins("--remat") ||
         begins("--memory-limit");
}

/// Takes the compiler's flags out of `arguments`, so that CLI11 sees the program's own. Gives the first that changes
/// code, or "".
std::string takeCompilerFlags(std::vector<std::string> &arguments, CompilerFlags &flags) {
  std::string codeFlag;
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const char *next = i + 1 < arguments.size() ? arguments[i + 1].c_str() : nullptr;
    const bool hadNext = next;
    std::string error;
    if (!takeCompilerFlag(arguments[i], &next, flags, error))
      rest.push_back(arguments[i]);
    else if (codeFlag.empty() && changesCode(arguments[i]))
      codeFlag = arguments[i];
    if (!error.empty())
      throw usageError(error);
    else if (hadNext && !next)
      ++i; // it was the flag's value
  }
  arguments = std::move(rest);
  return codeFlag;
}

/// The preset with the sizes that the command line gives.
ModelConfig configOf(const TrainOptions &options, const RawOptions &raw) {
  ModelConfig config = *modelPreset(options.model);
  const auto take = [](int64_t &size, const std::optional<int64_t> &given) { size = given.value_or(size); };
  std::visit(
      [&](auto &kind) {
        take(kind.layers, raw.layers);
        take(kind.heads, raw.heads);
        take(kind.width, raw.width);
        take(kind.vocab, raw.vocab);
        take(kind.sequence, options.sequence);
      },
      config.kind);
  if (auto *llama = std::get_if<LlamaConfig>(&config.kind)) {
    if (raw.width) // about 8/3 of it, as the family has it
      llama->inner = (*raw.width * 8 / 3 + 31) / 32 * 32;
    if (raw.width || raw.heads)
      llama->headSize = llama->width / std::max<int64_t>(llama->heads, 1);
    if (raw.heads)
      llama->keyValueHeads = std::gcd(llama->heads, llama->keyValueHeads);
    take(llama->keyValueHeads, raw.keyValueHeads);
  } else if (raw.keyValueHeads) {
    throw usageError(fmt::format("--kv-heads is of the Llama family, not of {}", options.model));
  }
  return config;
}

/// Whose steps are how much larger or smaller than AdamW's at the same rate.
double rateFactor(std::string_view optimizer) {
  return optimizer == "sgd" ? 50 : optimizer == "lion" ? 0.2 : optimizer == "adafactor" ? 5 : 1;
}

void resolveAdapter(const TrainOptions &options) {
  if (options.loraRank && options.generateTokens)
    throw usageError("--lora cannot be given with --generate, which trains nothing; --adapter FOLDER reads one");
}

/// What belongs together: data and checkpoints of a training run, or weights to generate from.
void resolveRun(TrainOptions &options, const RawOptions &raw) {
  if (raw.generate) {
    if (options.estimate)
      throw usageError("--estimate cannot be given with --generate, which trains nothing");
    if (options.initFolder.empty())
      throw usageError("--generate needs --init FOLDER: a Hugging Face folder or a checkpoint's");
    if (!options.dataFiles.empty())
      throw usageError("--data cannot be given with --generate, which trains nothing");
    for (const auto &[flag, value] :
         {std::pair("--save", &options.saveFolder), std::pair("--checkpoint", &options.checkpointFolder)})
      if (!value->empty())
        throw usageError(fmt::format("{} cannot be given with --generate, which trains nothing", flag));
    if (options.ranks > 1)
      throw usageError("--ranks cannot be given with --generate, which is one process's");
    options.generateTokens = *raw.generate;
    return;
  }
  if (options.storesMask && (!options.compileOnly.empty() || !options.stepFile.empty()))
    throw usageError(fmt::format("--mask=stored cannot be given with {}: a step in a file compares positions",
                                 options.stepFile.empty() ? "--compile-only" : "--step"));
  if (options.ladder || options.ablate)
    for (const auto &[flag, isGiven] :
         {std::pair("--estimate", options.estimate && options.ablate), std::pair("--memory", raw.memory.has_value()),
          std::pair("--price-per-hour", raw.price.has_value()), std::pair("--cluster", !options.clusterFile.empty()),
          std::pair("--resume", options.resume), std::pair("--checkpoint", !options.checkpointFolder.empty()),
          std::pair("--ranks", options.ranks > 0), std::pair("--compile-only", !options.compileOnly.empty()),
          std::pair("--step", !options.stepFile.empty()), std::pair("--save", !options.saveFolder.empty()),
          std::pair("--profile", !options.profileFile.empty()), std::pair("--report", !options.reportFolder.empty()),
          std::pair("--batch=auto", raw.batch == "auto"), std::pair("--emit-graph", !options.emitGraph.empty()),
          std::pair("--csv", !options.csvFile.empty()), std::pair("--wandb", !options.wandbFolder.empty()),
          std::pair("--ablate", options.ablate && options.ladder)})
      if (isGiven)
        throw usageError(fmt::format("{} cannot be given with {}, which makes runs of its own", flag,
                                     options.ladder ? "--ladder" : "--ablate"));
  if (!options.clusterFile.empty() && options.ranks < 2)
    throw usageError("--cluster needs --ranks with 2 ranks or more");
  if (!options.clusterFile.empty() && raw.price)
    throw usageError("--price-per-hour cannot be given with --cluster, whose file says dollars_per_hour");
  options.pricePerHour = raw.price.value_or(options.pricePerHour);
  options.estimateMemory = raw.memory.value_or(0) * 1e9;
  constexpr const char *libraries[] = {".so", ".a", ".o"};
  if (!options.compileOnly.empty() &&
      std::ranges::none_of(libraries, [&](const char *ending) { return options.compileOnly.ends_with(ending); }))
    throw usageError(fmt::format("--compile-only {}: a library's name is expected, which ends in .so, .a or .o",
                                 options.compileOnly));
  if (options.hasRuntime && !options.compileOnly.empty() && !options.compileOnly.ends_with(".so"))
    throw usageError("--static puts the runtime inside a shared library; it needs --compile-only FILE.so");
  if (!options.compileOnly.empty() && (!options.saveFolder.empty() || !options.checkpointFolder.empty()))
    throw usageError("--compile-only trains nothing; it cannot be given with --save or --checkpoint");
  if (!options.compileOnly.empty())
    for (const auto &[flag, path] :
         {std::pair("--emit-graph", options.emitGraph), std::pair("--dump-grads", options.dumpGrads),
          std::pair("--csv", options.csvFile), std::pair("--tensorboard", options.tensorBoardFolder),
          std::pair("--wandb", options.wandbFolder), std::pair("--plot", options.plotFile)})
      if (!path.empty())
        throw usageError(fmt::format("--compile-only runs nothing; it cannot be given with {}", flag));
  if (!options.compileOnly.empty() && options.ranks > 1)
    throw usageError("--compile-only makes the step of one process; it cannot be given with --ranks");
  if (!options.compileOnly.empty() && (options.estimate || !options.stepFile.empty()))
    throw usageError("--compile-only cannot be given with --estimate or --step");
  if (!options.stepFile.empty() && !raw.codeFlag.empty())
    throw usageError(
        fmt::format("{} cannot be given with --step {}, which holds a compiled step", raw.codeFlag, options.stepFile));
  if (options.dataFiles.empty() && !options.estimate && options.compileOnly.empty())
    throw usageError("no data: --data FILE is needed (text, nanoGPT .bin, llm.c shard or .jsonl)");
  for (const std::string_view ending : {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".eps"})
    if (options.plotFile.ends_with(ending))
      throw usageError(fmt::format("--plot {}: the figure is SVG, a name such as {}.svg is expected", options.plotFile,
                                   options.plotFile.substr(0, options.plotFile.size() - ending.size())));
  options.hasExamples = std::ranges::any_of(options.dataFiles, isExampleFile);
  options.packsExamples = !raw.hasNoPacking;
  if (raw.hasNoPacking && !options.hasExamples && !isExampleFile(options.evalFile))
    throw usageError("--no-packing is of examples; no --data file ends in .jsonl");
  options.vocabularyGiven = raw.vocab.has_value();
  options.checkpointEvery = raw.checkpointEvery.value_or(0);
}

/// Fills in the defaults that depend on the preset or on other options.
void resolve(TrainOptions &options, const RawOptions &raw) {
  resolveRun(options, raw);
  resolveAdapter(options);
  const TrainingDefaults &defaults = *std::find_if(std::begin(defaultsTable), std::end(defaultsTable),
                                                   [&](const TrainingDefaults &d) { return d.model == options.model; });
  options.config = configOf(options, raw);
  bool init = !options.initFolder.empty();
  if (init && (raw.layers || raw.heads || raw.keyValueHeads || raw.width || raw.vocab))
    throw usageError(
        "--layers, --heads, --kv-heads, --width and --vocab cannot be given with --init: the folder's config.json has "
        "these sizes");
  if (!init) {
    try {
      checkConfig(options.config);
    } catch (const Error &error) {
      throw usageError(error.what());
    }
  }
  if (options.dropout && !options.config.setDropout(*options.dropout) && *options.dropout > 0 && !init)
    throw usageError(fmt::format("--dropout is of GPT-2 and the Llama family, {} has none", options.model));
  options.largestBatch = raw.batch == "auto";
  options.batch = raw.batch && !options.largestBatch ? std::stoll(*raw.batch) : defaults.batch;
  options.fastReduce = raw.reduce == "fast";
  options.choosesZero = raw.zero == "auto";
  options.zero = options.choosesZero ? 0 : std::stoi(raw.zero);
  options.parameters = raw.parameters == "bf16" ? runtime::DType::bf16 : runtime::DType::f32;
  options.order = raw.order == "random" ? Order::Random : raw.order == "shuffled" ? Order::Shuffled : Order::Sequential;

  Schedule &schedule = options.schedule;
  schedule.kind = raw.schedule == "cosine"     ? ScheduleKind::Cosine
                  : raw.schedule == "constant" ? ScheduleKind::Constant
                                               : ScheduleKind::Trapezoid;
  options.beta2 = raw.beta2.value_or(options.optimizer == "lion" ? 0.99 : options.beta2);
  schedule.peak = raw.rate.value_or((init ? initRate : defaults.rate) * rateFactor(options.optimizer));
  schedule.floor = raw.minimumRate;
  if (raw.minimumRate && schedule.kind == ScheduleKind::Constant)
    throw usageError("--min-lr cannot be given with --schedule=constant, whose rate never falls");
  if (raw.minimumRate && *raw.minimumRate > schedule.peak)
    throw usageError(fmt::format("--min-lr={} is above the learning rate {}, the rate falls to it", *raw.minimumRate,
                                 schedule.peak));
  schedule.length.steps = raw.steps;
  if (raw.minutes)
    schedule.length.seconds = *raw.minutes * 60;
  else if (!raw.steps)
    schedule.length.steps = defaults.steps;
  int64_t warmup = schedule.length.steps ? std::min(*schedule.length.steps / 10, defaults.warmup) : defaults.warmup;
  schedule.warmup = raw.warmup.value_or(schedule.kind == ScheduleKind::Constant ? 0 : warmup);
  if (init)
    options.model = nameOfFolder(options.initFolder);
}

/// The declared options with the values of the arguments that were parsed last.
class Declared {
public:
  explicit Declared(const std::vector<std::string> &deviceKinds) {
    app.set_help_flag();
    app.name("train_gpt");
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); // as in gcc
    declareOptions(app, options, raw, deviceKinds);
    app.add_option("--config", options.configFile,
                   "Read options from this file, YAML or JSON: lines such as `batch: 8`; the command line wins over it")
        ->type_name("FILE");
    app.add_flag("-h,--help", help, "This text");
    app.add_flag("--version", version, "The version");
  }

  /// What is wrong with the arguments; empty where nothing is.
  std::string parse(std::vector<std::string> arguments);
  bool isGiven(const std::string &option) const {
    const CLI::Option *declared = app.get_option_no_throw(option);
    return declared && declared->count() > 0;
  }
  /// Fills in the defaults that depend on other options. Throws Error where options do not go together.
  TrainOptions resolved() {
    if (const std::string lacked = lackedOption([&](const char *option) { return isGiven(option); }); !lacked.empty())
      throw usageError(lacked);
    resolve(options, raw);
    return std::move(options);
  }

  CLI::App app;
  TrainOptions options;
  RawOptions raw;
  bool help = false, version = false;
};

std::string Declared::parse(std::vector<std::string> arguments) {
  try {
    raw.codeFlag = takeCompilerFlags(arguments, options);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend())); // CLI11 takes them from the back
  } catch (const CLI::ExtrasError &) {
    const std::string first = app.remaining().front();
    if (first.starts_with("-"))
      return fmt::format("unknown option {}{} (--help lists them)", inQuotes(first), suggestion(app, first));
    return fmt::format("unexpected argument {}: every value belongs to an option (--help lists them)", inQuotes(first));
  } catch (const CLI::ArgumentMismatch &error) {
    const std::string_view text = error.what();
    return fmt::format("{}: a value is expected", text.substr(0, text.find(':')));
  } catch (const CLI::ParseError &error) {
    return error.what();
  } catch (const Error &error) {
    return error.what();
  }
  if (app.get_option("--config")->count() > 1)
    return "--config is given twice, options are read from one file";
  return "";
}

/// The options of the file of --config that the command line does not give itself. Throws Error where one of the file's
/// is wrong, whether the command line gives it or not.
std::vector<FileArguments> optionsOfFile(const Declared &commandLine, const std::vector<std::string> &deviceKinds,
                                         const ReadOptionsFile &readFile) {
  if (commandLine.options.configFile.empty())
    throw usageError("--config: a file's name is expected");
  if (!readFile)
    throw usageError("--config: this program reads no options from files");
  Declared each(deviceKinds);
  std::vector<FileArguments> file = argumentsOf(readFile(commandLine.options.configFile), each.app);
  for (const FileArguments &option : file)
    if (const std::string wrong = each.parse(option.arguments); !wrong.empty())
      throw usageError(fmt::format("{}: {}", option.place, wrong));
  std::erase_if(file, [&](const FileArguments &option) { return commandLine.isGiven(option.name); });
  return file;
}

/// A message about options together, with the place in the file of the first one that it names.
std::string withPlace(const std::string &message, const std::string &path, const std::vector<FileArguments> &file) {
  if (file.empty())
    return message;
  const std::string place = placeOfNamed(message, file);
  return place.empty() ? fmt::format("{} (with the options of {})", message, path)
                       : fmt::format("{}: {}", place, message);
}

} // namespace

ParsedOptions parseTrainOptions(const std::vector<std::string> &given, const std::vector<std::string> &deviceKinds,
                                const ReadOptionsFile &readFile) {
  Declared commandLine(deviceKinds);
  if (std::string wrong = commandLine.parse(given); !wrong.empty())
    return {{}, 2, std::move(wrong)};
  if (commandLine.help)
    return {{},
            0,
            std::string(examples) + "\n" + commandLine.app.help() + "\nHow code is made:\n" + compilerFlagHelp() +
                std::string(statuses)};
  if (commandLine.version)
    return {{}, 0, "train_gpt (tcc) " TCC_VERSION "\n"};
  std::vector<FileArguments> file;
  try {
    if (!commandLine.isGiven("--config")) {
      TrainOptions options = commandLine.resolved();
      options.commandLine = given;
      return {std::move(options), 0, ""};
    }
    file = optionsOfFile(commandLine, deviceKinds, readFile);
    // The file's stand first: of an option that is given twice the last one counts.
    std::vector<std::string> arguments;
    for (const FileArguments &option : file)
      arguments.insert(arguments.end(), option.arguments.begin(), option.arguments.end());
    const std::vector<std::string> fromFile = arguments;
    arguments.insert(arguments.end(), given.begin(), given.end());
    Declared together(deviceKinds);
    if (std::string wrong = together.parse(arguments); !wrong.empty())
      return {{}, 2, withPlace(wrong, commandLine.options.configFile, file)};
    TrainOptions options = together.resolved();
    options.configOptions = fromFile;
    options.commandLine = given;
    return {std::move(options), 0, ""};
  } catch (const Error &error) {
    return {{}, error.exitStatus(), withPlace(error.what(), commandLine.options.configFile, file)};
  }
}

} // namespace tcc::models
