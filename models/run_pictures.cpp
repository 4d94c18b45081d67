#include "models/run_pictures.h"
#include "frontend/files.h"
#include "runtime/json_reader.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// As JSON, in which Weights & Biases has names for what is not finite.
std::string jsonOf(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "Infinity" : "-Infinity";
  return fmt::to_string(value);
}

std::string jsonOf(const std::string &text) {
  return runtime::writeJson(text);
}

/// What the run was started with.
WandbValues wandbConfig(const TrainOptions &options) {
  const Schedule &schedule = options.schedule;
  const auto number = [](auto value) { return fmt::to_string(value); };
  WandbValues config = {{"model", jsonOf(options.model)},
                        {"data", jsonOf(fmt::format("{}", fmt::join(options.dataFiles, ", ")))},
                        {"batch", number(options.batch)},
                        {"accumulate", number(options.accumulate)},
                        {"order", jsonOf(std::string(describe(options.order)))},
                        {"seed", number(options.seed)},
                        {"optimizer", jsonOf(options.optimizer)},
                        {"lr", jsonOf(schedule.peak)},
                        {"warmup", number(schedule.warmup)},
                        {"weight_decay", jsonOf(options.weightDecay)},
                        {"beta1", jsonOf(options.beta1)},
                        {"beta2", jsonOf(options.beta2)},
                        {"clip", jsonOf(options.clipNorm)},
                        {"dtype", jsonOf(std::string(options.productName()))},
                        {"params", jsonOf(std::string(runtime::name(options.parameters)))},
                        {"level", jsonOf(options.leastMemory ? "s" : number(options.level))}};
  if (schedule.length.steps)
    config.emplace_back("steps", number(*schedule.length.steps));
  if (schedule.length.seconds)
    config.emplace_back("minutes", jsonOf(*schedule.length.seconds / 60));
  if (options.sequence)
    config.emplace_back("seq", number(*options.sequence));
  return config;
}

} // namespace

RunPictures::RunPictures(const TrainOptions &options, TrainLog &log, const std::string &title, int64_t firstStep)
    : options(options), log(log) {
  if (!options.tensorBoardFolder.empty())
    board.emplace(options.tensorBoardFolder);
  if (!options.csvFile.empty())
    table.emplace(options.csvFile, firstStep);
  if (options.wandbFolder.empty())
    return;
  run.emplace(WandbRun::Start{options.wandbFolder, title, wandbConfig(options), firstStep});
  if (firstStep > 0 && !run->goesOn())
    log.message(
        fmt::format("{}: no run is in it, so the new one has no step before {}", options.wandbFolder, firstStep));
  log.message(fmt::format("`wandb sync {}` uploads the run", run->place()));
}

/// Warns where a log has just been given up.
template <typename Log>
void RunPictures::say(const Log &written, bool before, const std::string &where) {
  if (before && !written.complete())
    log.warning(fmt::format("{}: cannot write the scalars; training goes on without them", where));
}

void RunPictures::add(const StepRecord &record) {
  const auto tokens = double(record.tokens);
  if (!options.plotFile.empty()) {
    plot.training.push_back({tokens, record.loss});
    if (record.validationLoss)
      plot.validation.push_back({tokens, *record.validationLoss});
  }
  if (table) {
    const bool before = table->complete();
    table->step(record);
    say(*table, before, options.csvFile);
  }
  if (!board && !run)
    return;
  std::vector<std::pair<std::string, double>> values = {{"loss/training", record.loss},
                                                        {"learning_rate", record.learningRate},
                                                        {"gradient_norm", record.norm},
                                                        {"tokens_per_second", record.tokensPerSecond},
                                                        {"tokens", tokens},
                                                        {"skipped_steps", double(record.skipped)}};
  if (record.validationLoss)
    values.emplace_back("loss/held_out", *record.validationLoss);
  if (board) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const bool before = board->complete();
    board->scalars(record.step, std::chrono::duration<double>(now).count(), values);
    say(*board, before, options.tensorBoardFolder);
  }
  if (run) {
    WandbValues texts;
    for (const auto &[name, value] : values)
      texts.emplace_back(name, jsonOf(value));
    const bool before = run->complete();
    run->step(record.step, record.elapsed, std::move(texts));
    say(*run, before, run->place());
  }
}

void RunPictures::finish(int status, const RunSummary &summary, double elapsed) {
  if (!run)
    return;
  WandbValues values = {
      {"peak_bytes", fmt::to_string(summary.peakBytes)}, {"planned_bytes", fmt::to_string(summary.plannedBytes)},
      {"step_ms_median", jsonOf(summary.stepMsMedian)},  {"compile_s", jsonOf(summary.compileSeconds)},
      {"kernels", fmt::to_string(summary.kernels)},      {"parameters", fmt::to_string(summary.params)}};
  if (summary.mfu)
    values.emplace_back("mfu", jsonOf(*summary.mfu));
  const bool before = run->complete();
  run->finish(status, elapsed, values);
  say(*run, before, run->place());
}

void RunPictures::draw(const std::string &title) {
  if (options.plotFile.empty())
    return;
  if (!options.jsonFile.empty() && options.jsonFile != "-" && log.complete())
    plot = plotPointsOfLog(options.jsonFile);
  AtomicFile file(options.plotFile);
  file.write(lossPlot(plot.training, plot.validation, title));
  file.commit();
  log.message(fmt::format("drew the loss to {}", options.plotFile));
}

} // namespace tcc::models
