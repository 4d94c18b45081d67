#include "models/option_flags.h"
#include "frontend/quotes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace tcc::models {

namespace {

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

CLI::Validator wholeNumberOrAuto(uint64_t most) {
  return expecting(fmt::format("a whole number from 1 to {} or auto", most), [=](const std::string &text) {
    uint64_t value;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return text == "auto" || (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most);
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

/// Which ends of the range from 0 to 1 belong to it.
enum class Ends { none, zero, one };

CLI::Validator share(Ends ends = Ends::zero) {
  const char *rule = ends == Ends::one    ? "a number above 0 and at most 1"
                     : ends == Ends::zero ? "a number from 0 on and below 1"
                                          : "a number above 0 and below 1";
  return expecting(rule, [=](const std::string &text) {
    double value;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool isEnd = (value == 0 && ends == Ends::zero) || (value == 1 && ends == Ends::one);
    return error == std::errc() && end == text.data() + text.size() && (isEnd || (value > 0 && value < 1));
  });
}

CLI::Validator oneOf(std::vector<std::string> names) {
  std::string rule = fmt::format("one of {}", fmt::join(names, ", "));
  return expecting(std::move(rule), [names](const std::string &text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  });
}

void declareModel(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  auto count = [&](const char *flag, std::optional<int64_t> &value, const char *help) {
    app.add_option(flag, value, help)->check(wholeNumber(1, countLimit))->type_name("N")->group("Model");
  };
  app.add_option("--model", options.model,
                 "Preset: baby (4 layers, width 128, T 64), char (6, 384, 256), gpt2 (12, 768, 1024), gpt2-medium, "
                 "gpt2-large, gpt2-xl, script-baby, script-163m, llama-baby, llama-160m, modern-124m")
      ->check(oneOf(modelPresetNames()))
      ->type_name("NAME")
      ->group("Model");
  count("--layers", raw.layers, "Number of blocks");
  count("--heads", raw.heads, "Attention heads of a block; divide the width");
  count("--kv-heads", raw.keyValueHeads, "Llama's heads of keys and values; divide the heads");
  count("--width", raw.width, "Width of the residual stream");
  count("--vocab", raw.vocab, "Vocabulary size: 256 for text, 50257 for GPT-2 tokens");
  app.add_option(
         "--init", options.initFolder,
         "Start from the weights of this Hugging Face folder of a GPT-2, Llama, Qwen2 or Qwen3, or of the newest "
         "checkpoint of this run's folder, and read texts by its tokenizer")
      ->type_name("FOLDER")
      ->group("Model");
  app.add_option("--lora", options.loraRank,
                 "Freeze --init's weights and train adapters of this rank in all linear layers but the head (LoRA); "
                 "--save writes the adapter alone, as PEFT reads it")
      ->check(wholeNumber(1, 1 << 14))
      ->type_name("RANK")
      ->group("Model");
  app.add_option("--lora-alpha", options.loraAlpha, "With --lora: an adapter's share is alpha / rank; 16")
      ->check(finiteNumber(false))
      ->type_name("X")
      ->group("Model");
  app.add_option("--adapter", options.adapterFolder,
                 "Start from the adapter of this folder, or of a run's newest checkpoint, and train it alone")
      ->type_name("FOLDER")
      ->group("Model");
}

void declareData(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_option(
         "--data", options.dataFiles,
         "Text (bytes), nanoGPT .bin (uint16), llm.c shard, or .jsonl with a text, a prompt and completion, or a "
         "conversation a line; required; several files are one text")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE...")
      ->group("Data");
  app.add_option("--tokenizer", options.tokenizerFolder,
                 "Read texts by the tokenizer of this folder: tokenizer.json, or vocab.json and merges.txt; --save and "
                 "checkpoints write it beside the weights")
      ->type_name("FOLDER")
      ->group("Data");
  app.add_option("--train-tokenizer", options.trainVocabulary,
                 "Learn --tokenizer's from the data first: a byte-level BPE of so many tokens")
      ->check(wholeNumber(257, 1 << 20))
      ->type_name("N")
      ->group("Data");
  app.add_flag("--no-packing", raw.hasNoPacking, "With .jsonl data: each row holds one example, not as many as fit")
      ->group("Data");
  app.add_option("--dump-tokens", options.dumpTokens, "Only write the data's tokens to this file, an llm.c shard")
      ->type_name("FILE")
      ->group("Data");
  app.add_option("--batch", raw.batch, "Rows of a batch, B; auto: as many as fit in --memory-limit, or in the machine")
      ->check(wholeNumberOrAuto(countLimit))
      ->type_name("N")
      ->group("Data");
  app.add_option("--seq", options.sequence, "Tokens of a row, T; without --init also the position table's length")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Data");
  app.add_option(
         "--order", raw.order,
         "random rows; sequential (step i reads tokens[i*B*T : (i+1)*B*T + 1]); or shuffled: each file's batches "
         "once a pass, files and batches in random order")
      ->check(oneOf({"random", "sequential", "shuffled"}))
      ->type_name("ORDER")
      ->group("Data");
  app.add_flag_callback(
         "--no-prefetch", [&options] { options.prefetches = false; },
         "Make a step's batch when the step needs it, not while the one before runs")
      ->group("Data");
  app.add_option("--seed", options.seed, "The one seed: of weights, order, dropout and samples")
      ->check(wholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->type_name("N")
      ->group("Data");
  app.add_option("--eval-every", options.evalEvery, "Loss on held-out tokens every N steps and at the end")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Data");
  app.add_option("--eval-share", options.evalShare,
                 "With --eval-every: the last part of the data that is held out; 0.1")
      ->check(share(Ends::none))
      ->type_name("X")
      ->group("Data");
  app.add_option("--eval-data", options.evalFile, "Evaluate on this file; nothing of --data is held out then")
      ->type_name("FILE")
      ->group("Data");
  app.add_option("--eval-batches", options.evalBatches, "Batches of an evaluation, the same ones each time; 20")
      ->check(wholeNumber(1, 1 << 20))
      ->type_name("N")
      ->group("Data");
}

void declareTraining(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  auto number = [&](const char *flag, double &value, CLI::Validator check, const char *help) {
    app.add_option(flag, value, help)->check(check)->type_name("X")->group("Training");
  };
  app.add_option("--steps", raw.steps, "Stop after this many steps; 0: only --emit-graph, --save and the like")
      ->check(wholeNumber(0, countLimit))
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
  app.add_option("--schedule", raw.schedule, "cosine, constant, or trapezoid (falls over the last fifth)")
      ->check(oneOf({"cosine", "constant", "trapezoid"}))
      ->type_name("KIND")
      ->group("Training");
  app.add_option("--warmup", raw.warmup, "Steps of linear warm-up")
      ->check(wholeNumber(0, countLimit))
      ->type_name("N")
      ->group("Training");
  app.add_option("--min-lr", raw.minimumRate,
                 "Rate that the schedule falls to: a tenth of --lr (cosine), 0 (trapezoid)")
      ->check(finiteNumber(true))
      ->type_name("X")
      ->group("Training");
  app.add_option("--accumulate", options.accumulate, "Batches whose gradients make one step, inside one compiled step")
      ->check(wholeNumber(1, 1024))
      ->type_name("N")
      ->group("Training");
  app.add_option(
         "--lanes", options.lanes,
         "Parts of each batch whose gradients are added in one tree: losses follow from it, and not from how many "
         "ranks share them out (1; 8 on several ranks)")
      ->check(wholeNumber(1, 4096))
      ->type_name("V")
      ->group("Several processes");
  app.add_option("--ranks", options.ranks,
                 "Train by so many processes, which mpirun starts here; `mpirun -n N train_gpt ...` does it elsewhere")
      ->check(wholeNumber(1, 4096))
      ->type_name("N")
      ->group("Several processes");
  app.add_option("--reduce", raw.reduce,
                 "tree: the same bits for any number of ranks; fast: the engine's own order, whose bits follow")
      ->check(oneOf({"tree", "fast"}))
      ->type_name("KIND")
      ->group("Several processes");
  app.add_option(
         "--zero", raw.zero,
         "What ranks share out beside lanes: 0: nothing; 1: the optimizer's states, each rank keeps its part; 2: sums "
         "of gradients too; 3: parameters too; auto: the least that fits in the memory. The bits are the same")
      ->check(oneOf({"0", "1", "2", "3", "auto"}))
      ->type_name("STAGE")
      ->group("Several processes");
  app.add_option("--optimizer", options.optimizer, "adamw, sgd (momentum), lion, adafactor or muon")
      ->check(oneOf({"adamw", "sgd", "lion", "adafactor", "muon"}))
      ->type_name("NAME")
      ->group("Training");
  app.add_option(
         "--params", raw.parameters,
         "Element type of weights and the optimizer's moments: f32, or bf16, half the memory, rounded at random "
         "(goes well with --dtype=bf16); --save writes f32")
      ->check(oneOf({"f32", "bf16"}))
      ->type_name("TYPE")
      ->group("Training");
  app.add_option(
         "--dropout", options.dropout,
         "Of GPT-2's embedding, attention and residual, of Llama's and Qwen's attention; --init's rates, else 0")
      ->check(share())
      ->type_name("X")
      ->group("Training");
  number("--weight-decay", options.weightDecay, finiteNumber(true), "Of matrices and embeddings; 0.1");
  number("--beta1", options.beta1, share(), "Of the first moment, or the momentum; 0.9");
  app.add_option("--beta2", raw.beta2, "Of the second moment; 0.95, for lion 0.99")
      ->check(share())
      ->type_name("X")
      ->group("Training");
  app.add_option_function<std::string>(
         "--mask", [&options](const std::string &mask) { options.storesMask = mask == "stored"; },
         "Attention's causal mask: compared, made from positions where it is needed (default), or stored, read from "
         "memory")
      ->check(oneOf({"compared", "stored"}))
      ->type_name("MASK")
      ->group("Training");
  app.add_option("--max-skipped", options.maxSkipped,
                 "End a run whose loss or gradient norm was not finite in so many steps in a row, and say which tensor "
                 "was not; 20; 0: never")
      ->check(wholeNumber(0, countLimit))
      ->type_name("N")
      ->group("Training");
  app.add_flag("--find-nan", options.findNan, "Where a run ends so: name the op and its line (compiles without fusion)")
      ->group("Training");
  number("--clip", options.clipNorm, finiteNumber(true), "Largest norm of the gradients; 1; 0 clips nothing");
}

void declareEstimate(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_flag("--ladder", options.ladder,
               "Train a few steps of the plain model, then with one switch after the other, and say what each brings; "
               "--json and --plot get the table and its picture; with --estimate by the plans alone")
      ->group("Before a run");
  app.add_flag("--ablate", options.ablate,
               "Train a few steps with everything on, then with one switch off at a time, alternating; say what each "
               "brings and what bounds the step")
      ->group("Before a run");
  app.add_flag("--estimate", options.estimate,
               "Only compile, and print the step's memory by component, the largest batch that fits, the least time of "
               "a step, and the run's hours and price; no data is needed")
      ->group("Before a run");
  app.add_option("--memory", raw.memory, "With --estimate: gigabytes to fit in (10^9 bytes); those of the machine")
      ->check(finiteNumber(false))
      ->type_name("GB")
      ->group("Before a run");
  app.add_option("--cluster", options.clusterFile,
                 "With --estimate and --ranks=N: time, tokens and price on 1 to N ranks of the cluster that this file "
                 "describes (docs/RANKS.md), each with the rows that it has on N")
      ->type_name("FILE")
      ->group("Before a run");
  app.add_option("--price-per-hour", raw.price,
                 "With --estimate: dollars for an hour of the GPU, or of the processor; 2")
      ->check(expecting("a number of dollars from 0 to 1000000",
                        [](const std::string &text) {
                          double value;
                          auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
                          return error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= 1e6;
                        }))
      ->type_name("X")
      ->group("Before a run");
}

void declareCheckpoints(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_option("--checkpoint", options.checkpointFolder, "Keep checkpoints of the run in this folder")
      ->type_name("FOLDER")
      ->group("Checkpoints");
  app.add_option("--checkpoint-every", raw.checkpointEvery, "Steps between two checkpoints; without it one at the end")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Checkpoints");
  app.add_option("--keep", options.keepCheckpoints, "The latest checkpoints that stay; 3")
      ->check(wholeNumber(1, 1 << 20))
      ->type_name("N")
      ->group("Checkpoints");
  app.add_flag("--resume", options.resume, "Go on from the latest checkpoint of --checkpoint")->group("Checkpoints");
}

/// Whether `text` is "N", a number from 0 on.
bool isOrdinal(std::string_view text) {
  int ordinal = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  return !text.empty() && problem == std::errc() && end == text.data() + text.size() && ordinal >= 0;
}

void declareCompiler(CLI::App &app, TrainOptions &options, const std::vector<std::string> &deviceKinds) {
  std::vector<std::string> names = {"auto", "cpu"};
  for (const std::string &kind : deviceKinds)
    names.insert(names.end(), {kind, kind + ":N"});
  const auto isDevice = [names](const std::string &text) {
    const size_t colon = text.find(':');
    const std::string name = colon == std::string::npos ? text : text.substr(0, colon) + ":N";
    return std::find(names.begin(), names.end(), name) != names.end() &&
           (colon == std::string::npos || isOrdinal(std::string_view(text).substr(colon + 1)));
  };
  std::string help = "auto (a GPU that works, else the CPU)";
  for (size_t i = 1; i < names.size(); ++i)
    help += (i + 1 == names.size() ? " or " : ", ") + names[i];
  app.add_option("--device", options.device, help + "; auto")
      ->check(expecting(fmt::format("one of {}", fmt::join(names, ", ")), isDevice))
      ->type_name("DEVICE")
      ->group("Compiler");
  app.add_flag("--check-device", options.checkDevice,
               "First run one step kernel by kernel beside the CPU: is a new GPU, driver or compiler right?")
      ->group("Compiler");
  app.add_option("--emit-graph", options.emitGraph, "Write the training step as .graph text to this file")
      ->type_name("FILE")
      ->group("Compiler");
}

void declareLibraries(CLI::App &app, TrainOptions &options) {
  app.add_option(
         "--compile-only", options.compileOnly,
         "Only compile, and write the training step to this file (.so, .a or .o) and its C header beside it; no "
         "data is needed; -march=x86-64-v3,x86-64-v4 compiles it for several CPUs")
      ->type_name("FILE")
      ->group("Compiler");
  app.add_flag("--static", options.hasRuntime, "With --compile-only: put the runtime inside FILE.so")
      ->group("Compiler");
  app.add_option("--initial-states", options.initialStates,
                 "With --compile-only: write the weights and moments that training begins with, as safetensors")
      ->type_name("FILE")
      ->group("Compiler");
  app.add_option("--step", options.stepFile,
                 "Take the training step from this file of --compile-only, and compile none")
      ->type_name("FILE")
      ->group("Compiler");
}

void declareOutput(CLI::App &app, TrainOptions &options, RawOptions &raw) {
  app.add_option("--json", options.jsonFile, "Log to this file, one JSON object a line (- is stdout)")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--csv", options.csvFile, "Log to this file, a line of comma-separated values a step")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--wandb", options.wandbFolder,
                 "Write the run to this folder as an offline run of Weights & Biases, which `wandb sync` uploads")
      ->type_name("FOLDER")
      ->group("Output");
  app.add_option("--tensorboard", options.tensorBoardFolder, "Write scalars for TensorBoard to this folder")
      ->type_name("FOLDER")
      ->group("Output");
  app.add_option("--profile", options.profileFile,
                 "Where the time goes: of steps as a table, of the whole run as a Chrome trace in this file "
                 "(docs/TRACES.md)")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--plot", options.plotFile, "Draw loss and held-out loss over tokens to this file, an SVG figure")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--hash-every", options.hashEvery, "Checksums of all parameters in the log every N steps (--json)")
      ->check(wholeNumber(1, countLimit))
      ->type_name("N")
      ->group("Output");
  app.add_option("--sample", options.sampleTokens, "Generate so many tokens after training")
      ->check(wholeNumber(0, 1 << 24))
      ->type_name("N")
      ->group("Output");
  app.add_option("--prompt", options.prompt, "The generated text goes on from here")
      ->type_name("TEXT")
      ->group("Output");
  app.add_option("--generate", raw.generate, "Only generate so many tokens from --init's weights; no data is needed")
      ->check(wholeNumber(1, 1 << 24))
      ->type_name("N")
      ->group("Output");
  app.add_option("--temperature", options.temperature, "Of the sample; 0 always takes the likeliest token")
      ->check(finiteNumber(true))
      ->type_name("X")
      ->group("Output");
  app.add_option("--top-k", options.topK, "Sample from the N likeliest tokens; 0 from all")
      ->check(wholeNumber(0, 1 << 24))
      ->type_name("N")
      ->group("Output");
  app.add_option("--top-p", options.topP,
                 "Sample from the likeliest tokens that together have this probability; 1: all")
      ->check(share(Ends::one))
      ->type_name("X")
      ->group("Output");
  app.add_option("--stop", options.stop, "The generated text ends before this one; repeatable")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->group("Output");
  app.add_flag_callback(
         "--no-kv-cache", [&options] { options.cachesKeys = false; },
         "Compute the whole context for each generated token, and keep no keys and values")
      ->group("Output");
  app.add_option("--dump-grads", options.dumpGrads, "Write the first step's unclipped gradients (safetensors)")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--save", options.saveFolder, "Write the trained weights as a Hugging Face folder")
      ->type_name("FOLDER")
      ->group("Output");
  app.add_flag("-q,--quiet", options.quiet, "No progress, only errors and what was asked for")->group("Output");
}

} // namespace

void declareOptions(CLI::App &app, TrainOptions &options, RawOptions &raw,
                    const std::vector<std::string> &deviceKinds) {
  declareModel(app, options, raw);
  declareData(app, options, raw);
  declareTraining(app, options, raw);
  declareEstimate(app, options, raw);
  declareCheckpoints(app, options, raw);
  declareCompiler(app, options, deviceKinds);
  declareLibraries(app, options);
  declareOutput(app, options, raw);
}

} // namespace tcc::models
