#include "models/options.h"
#include "models/input_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
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
  train_gpt --init gpt2/ --data train.bin --seq 256 --save tuned/     from Hugging Face weights and back to such a folder
  train_gpt --data book.txt -O0                              one kernel per op, for comparison
  train_gpt --data book.txt -fno-simplify                    without one pass
)";

constexpr std::string_view statuses =
    R"(
Ctrl-C and SIGTERM end training after the step, with summary, --save and --sample; a second one ends at once.
Exit status: 0; 1 after an error; 2 after a usage error; 130 or 143 after Ctrl-C or SIGTERM.
)";

/// What differs between the presets beside their sizes.
struct TrainingDefaults {
  std::string_view model;
  int64_t batch, steps, warmup; ///< the warm-up of a run that ends by time; else at most a tenth of the steps
  double rate;
};
constexpr TrainingDefaults defaultsTable[] = {
    {"baby", 32, 1000, 100, 2e-3}, {"char", 16, 1000, 20, 1e-3}, {"gpt2", 4, 100, 10, 6e-4}};
constexpr double initRate = 3e-4; // weights that are trained already take smaller steps

/// The values as CLI11 stores them, before defaults that depend on each other.
struct RawOptions {
  std::string schedule = "cosine", order = "random", dtype = "f32";
  std::optional<int64_t> layers, heads, width, vocab, batch, steps, warmup;
  std::optional<double> rate, minutes;
  std::vector<std::string> passes;
};

constexpr int64_t countLimit = int64_t(1) << 40;

/// Checks with one wording: what was given, then the rule.
template <typename Accept>
CLI::Validator expecting(std::string rule, Accept accept) {
  auto check = [rule = std::move(rule), accept](std::string &text) -> std::string {
    return accept(text) ? "" : fmt::format("{} is given, {} is expected", inQuotes(text), rule);
  };
  return CLI::Validator(check, "");
}

CLI::Validator wholeNumber(uint64_t least, uint64_t most) {
  return expecting(fmt::format("a whole number from {} to {}", least, most), [=](const std::string &text) {
    uint64_t value;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
  });
}

/// A number from 0 on, or above it: neither NaN nor infinite.
CLI::Validator finiteNumber(bool zeroAllowed) {
  return expecting(zeroAllowed ? "a number from 0 on" : "a number above 0", [=](const std::string &text) {
    double value;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
           (zeroAllowed ? value >= 0 : value > 0);
  });
}

CLI::Validator oneOf(std::vector<std::string> names) {
  std::string rule = fmt::format("one of {}", fmt::join(names, ", "));
  return expecting(std::move(rule), [names](const std::string &text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  });
}

void declareModel(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  const auto presets = gpt2PresetNames();
  auto count = [&](const char *flag, std::optional<int64_t> &value, const char *help) {
    app.add_option(flag, value, help)->check(wholeNumber(1, countLimit))->type_name("N")->group("Model");
  };
  app.add_option("--model", options.model,
                 "Preset: baby (4 layers, width 128, T 64), char (6, 384, 256), gpt2 (12, 768, 1024)")
      ->check(oneOf({presets.begin(), presets.end()}))
      ->type_name("NAME")
      ->group("Model");
  count("--layers", raw.layers, "Number of blocks");
  count("--heads", raw.heads, "Attention heads of a block; divide the width");
  count("--width", raw.width, "Width of the residual stream");
  count("--vocab", raw.vocab, "Vocabulary size: 256 for text, 50257 for GPT-2 tokens");
  app.add_option("--init", options.initFolder,
                 "Start from this Hugging Face GPT-2 folder (config.json, model.safetensors)")
      ->type_name("FOLDER")
      ->group("Model");
  app.add_option("--dtype", raw.dtype, "What matrix products multiply: f32 or bf16; all else stays f32")
      ->check(oneOf({"f32", "bf16"}))
      ->type_name("DTYPE")
      ->group("Model");
}

void declareData(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_option("--data", options.dataFile, "Text (bytes), nanoGPT .bin (uint16) or llm.c shard; required")
      ->type_name("FILE")
      ->group("Data");
  app.add_option("--batch", raw.batch, "Rows of a batch, B")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Data");
  app.add_option("--seq", options.sequence, "Tokens of a row, T; without --init also the position table's length")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Data");
  app.add_option("--order", raw.order, "random, or sequential (step i reads tokens[i*B*T : (i+1)*B*T + 1])")
      ->check(oneOf({"random", "sequential"}))
      ->type_name("ORDER")
      ->group("Data");
  app.add_option("--seed", options.seed, "Seed of weights, order and sample")
      ->check(wholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->type_name("N")
      ->group("Data");
}

void declareTraining(CLI::App &app, RawOptions &raw) {
  app.add_option("--steps", raw.steps, "Stop after this many steps")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Training");
  app.add_option("--minutes", raw.minutes, "Stop after this wall time")
      ->check(finiteNumber(false))
      ->type_name("X")
      ->group("Training");
  app.add_option("--lr", raw.rate, "Learning rate (peak)")
      ->check(finiteNumber(true))
      ->type_name("X")
      ->group("Training");
  app.add_option("--schedule", raw.schedule, "cosine (falls to a tenth) or constant")
      ->check(oneOf({"cosine", "constant"}))
      ->type_name("KIND")
      ->group("Training");
  app.add_option("--warmup", raw.warmup, "Steps of linear warm-up")
      ->check(wholeNumber(0, countLimit))
      ->type_name("N")
      ->group("Training");
}

void declareCompiler(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_option("-O", options.optimization,
                 "-O0 one kernel per op, -O1 fused, -O2 with recomputation (default), -O3 as -O2")
      ->check(wholeNumber(0, 3))
      ->type_name("LEVEL")
      ->group("Compiler");
  app.add_option("-f", raw.passes, "-f<pass> or -fno-<pass>: switch one pass on or off; repeatable")
      ->allow_extra_args(false)
      ->type_name("[no-]PASS")
      ->group("Compiler");
  app.add_option("--threads", options.threads, "Threads; without it all of the machine")
      ->check(wholeNumber(1, 4096))
      ->type_name("N")
      ->group("Compiler");
  app.add_option("--emit-graph", options.emitGraph, "Write the training step as .graph text to this file")
      ->type_name("FILE")
      ->group("Compiler");
}

void declareOutput(CLI::App &app, TrainOptions &options) {
  app.add_option("--json", options.jsonFile, "Log to this file, one JSON object a line (- is stdout)")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--sample", options.sampleTokens, "Generate so many tokens after training")
      ->check(wholeNumber(0, 1 << 24))
      ->type_name("N")
      ->group("Output");
  app.add_option("--prompt", options.prompt, "The generated text goes on from here")
      ->type_name("TEXT")
      ->group("Output");
  app.add_option("--temperature", options.temperature, "Of the sample; 0 always takes the likeliest token")
      ->check(finiteNumber(true))
      ->type_name("X")
      ->group("Output");
  app.add_option("--top-k", options.topK, "Sample from the N likeliest tokens; 0 from all")
      ->check(wholeNumber(0, 1 << 24))
      ->type_name("N")
      ->group("Output");
  app.add_option("--dump-grads", options.dumpGrads, "Write the first step's unclipped gradients (safetensors)")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--save", options.saveFolder, "Write the trained weights as a Hugging Face folder")
      ->type_name("FOLDER")
      ->group("Output");
  app.add_flag("-q,--quiet", options.quiet, "No progress, only errors and what was asked for")->group("Output");
}

int editDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = int(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// ", did you mean `--width`?" where a declared flag is near.
std::string suggestion(const CLI::App &app, std::string_view flag) {
  flag = flag.substr(0, flag.find('='));
  std::string best;
  int bestDistance = 3;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      if (int distance = editDistance(flag, "--" + name); distance < bestDistance) {
        bestDistance = distance;
        best = name;
      }
  return best.empty() ? "" : fmt::format(", did you mean `--{}`?", best);
}

struct UsageError {
  std::string text;
};

std::pair<std::string, bool> parsePass(const std::string &text) {
  bool enabled = !text.starts_with("no-");
  std::string name = enabled ? text : text.substr(3);
  if (name.empty())
    throw UsageError{fmt::format("`-f{}` names no pass, -f<pass> or -fno-<pass> is expected", text)};
  return {name, enabled};
}

/// Fills in the defaults that depend on the preset or on other options.
void resolve(TrainOptions &options, const RawOptions &raw) {
  if (options.dataFile.empty())
    throw UsageError{"no data: --data FILE is needed (text, nanoGPT .bin or llm.c shard)"};
  const TrainingDefaults &defaults = *std::find_if(std::begin(defaultsTable), std::end(defaultsTable),
                                                   [&](const TrainingDefaults &d) { return d.model == options.model; });
  Gpt2Config preset = *gpt2Preset(options.model);
  options.config = {.layers = raw.layers.value_or(preset.layers),
                    .heads = raw.heads.value_or(preset.heads),
                    .width = raw.width.value_or(preset.width),
                    .sequence = options.sequence.value_or(preset.sequence),
                    .vocab = raw.vocab.value_or(preset.vocab)};
  bool init = !options.initFolder.empty();
  if (init && (raw.layers || raw.heads || raw.width || raw.vocab))
    throw UsageError{"--layers, --heads, --width and --vocab cannot be given with --init: the folder's config.json has "
                     "these sizes"};
  if (!init) {
    try {
      checkConfig(options.config);
    } catch (const InputError &error) {
      throw UsageError{error.what()};
    }
  }
  options.batch = raw.batch.value_or(defaults.batch);
  options.order = raw.order == "random" ? Order::Random : Order::Sequential;
  options.dtype = runtime::parseDType(raw.dtype).value();

  Schedule &schedule = options.schedule;
  schedule.kind = raw.schedule == "cosine" ? ScheduleKind::Cosine : ScheduleKind::Constant;
  schedule.peak = raw.rate.value_or(init ? initRate : defaults.rate);
  schedule.length.steps = raw.steps;
  if (raw.minutes)
    schedule.length.seconds = *raw.minutes * 60;
  else if (!raw.steps)
    schedule.length.steps = defaults.steps;
  int64_t warmup = schedule.length.steps ? std::min(*schedule.length.steps / 10, defaults.warmup) : defaults.warmup;
  schedule.warmup = raw.warmup.value_or(schedule.kind == ScheduleKind::Cosine ? warmup : 0);
  for (const std::string &pass : raw.passes)
    options.passes.push_back(parsePass(pass));
}

} // namespace

ParsedOptions parseTrainOptions(const std::vector<std::string> &arguments) {
  CLI::App app;
  app.set_help_flag();
  app.name("train_gpt");
  TrainOptions options;
  RawOptions raw;
  bool help = false, version = false;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); // as in gcc
  declareModel(app, options, raw);
  declareData(app, options, raw);
  declareTraining(app, raw);
  declareCompiler(app, options, raw);
  declareOutput(app, options);
  app.add_flag("-h,--help", help, "This text");
  app.add_flag("--version", version, "The version");

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend())); // CLI11 takes them from the back
  } catch (const CLI::ExtrasError &) {
    std::string first = app.remaining().front();
    if (first.starts_with("-"))
      return {{}, 2, fmt::format("unknown option {}{} (--help lists them)", inQuotes(first), suggestion(app, first))};
    return {
        {},
        2,
        fmt::format("unexpected argument {}: every value belongs to an option (--help lists them)", inQuotes(first))};
  } catch (const CLI::ArgumentMismatch &error) {
    return {{},
            2,
            fmt::format("{}: a value is expected",
                        std::string_view(error.what()).substr(0, std::string_view(error.what()).find(':')))};
  } catch (const CLI::ParseError &error) {
    return {{}, 2, error.what()};
  }
  if (help)
    return {{}, 0, std::string(examples) + "\n" + app.help() + std::string(statuses)};
  if (version)
    return {{}, 0, "train_gpt (tcc) " TCC_VERSION "\n"};
  try {
    resolve(options, raw);
  } catch (const UsageError &error) {
    return {{}, 2, error.text};
  }
  return {std::move(options), 0, ""};
}

} // namespace tcc::models
