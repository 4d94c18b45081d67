// --estimate: the memory and time of a step, and the largest batch that fits.
#include "models/estimate.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/cluster_report.h"
#include "models/estimator.h"
#include "models/run_device.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "models/start_folders.h"
#include "passes/zero_stages.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

void printMemory(std::FILE *output, const StepFigures &step) {
  const auto row = [&](const char *what, int64_t bytes) {
    if (bytes != 0)
      fmt::print(output, "  {:<38}{:>12.3f} MB\n", what, double(bytes) / 1e6);
  };
  row("weights", step.weights);
  row("frozen weights", step.frozen);
  row("moments of the optimizer", step.moments);
  row("gradients that updates wait for", step.arena.updates);
  row("activations and their gradients", step.arena.values);
  row("scratch of products and kernels", step.arena.scratch);
  row("gaps", step.arena.unused);
  row("inputs, outputs, constants", step.others);
  row("together", step.planned);
  fmt::print(output, "  ({} bytes; the arena, which is gradients, activations, scratch and gaps, is fullest at `{}`)\n",
             step.planned, step.arena.fullest);
  if (step.evaluating > 0)
    fmt::print(output, "  ({} bytes while it evaluates, with whole parameters)\n", step.evaluating);
}

void printTime(std::FILE *output, const StepFigures &step, int64_t tokens) {
  const double seconds = step.productSeconds + step.kernelSeconds;
  if (step.hasUnknownProducts) {
    fmt::print(output,
               "how long a step takes is not known: its products could not be measured (tcc --doctor says why)\n");
    return;
  }
  if (seconds <= 0) // no limit of the machine is known
    return;
  fmt::print(
      output,
      "a step takes at least {:.3g} ms by the roofline (products {:.3g}, kernels {:.3g}): at most {:.0f} tokens/s "
      "(tcc --calibrate measures the limits)\n",
      seconds * 1e3, step.productSeconds * 1e3, step.kernelSeconds * 1e3, double(tokens) / seconds);
}

/// 0.01234 as "0.0123", 1.5 as "1.50", 1234.5 as "1234": three digits or more, and no exponent.
std::string readable(double value) {
  const int decimals = value <= 0 ? 0 : std::clamp(2 - int(std::floor(std::log10(value))), 0, 12);
  return fmt::format("{:.{}f}", value, decimals);
}

/// The least time of a step; nothing where no limit of the machine is known, or one of its matmuls has no rate.
std::optional<double> leastSeconds(const StepFigures &step) {
  const double seconds = step.productSeconds + step.kernelSeconds;
  return step.hasUnknownProducts || seconds <= 0 ? std::nullopt : std::optional(seconds);
}

/// How long a run takes. Steps are counted with their least time, so a real run takes longer; an end by the clock is
/// exact. Each rank is taken to have a processor of its own: several on one take as much of it.
struct RunCost {
  enum class Bound { exactly, atMost, atLeast } bound = Bound::exactly;
  double hours = 0; ///< of all processors
};

/// Nothing where it is not known.
std::optional<RunCost> costOf(const StepFigures &step, const TrainOptions &options) {
  const RunLength &length = options.schedule.length;
  const std::optional<double> least = leastSeconds(step);
  const auto ranks = double(std::max<int64_t>(options.ranks, 1));
  const double stepsSeconds = length.steps ? double(*length.steps) * least.value_or(0) : 0;
  if (length.seconds && (!length.steps || !least || stepsSeconds >= *length.seconds))
    return RunCost{length.steps && !least ? RunCost::Bound::atMost : RunCost::Bound::exactly,
                   *length.seconds / 3600 * ranks};
  if (!least)
    return std::nullopt;
  return RunCost{RunCost::Bound::atLeast, stepsSeconds / 3600 * ranks};
}

/// What the whole run takes and costs.
void printPrice(std::FILE *output, const StepFigures &step, const TrainOptions &options, bool isGpu) {
  const RunLength &length = options.schedule.length;
  const char *what = isGpu ? "GPU-hours" : "processor-hours";
  const std::string several = options.ranks > 1 ? fmt::format(" of {} ranks", options.ranks) : "";
  const std::string steps = length.steps ? fmt::format("{} step{}", *length.steps, *length.steps == 1 ? "" : "s") : "";
  const std::optional<RunCost> cost = costOf(step, options);
  if (!cost) {
    fmt::print(output, "{}{}: {} and price are not known, as the time of a step is not\n", steps, several, what);
    return;
  }
  const bool isByClock = cost->bound != RunCost::Bound::atLeast;
  const std::string run =
      isByClock ? fmt::format("{:g} minutes{}", *length.seconds / 60, length.steps ? " or " + steps : "") : steps;
  constexpr const char *bounds[] = {"", "at most ", "at least "};
  fmt::print(output, "{}{}: {}{} {}, {} dollars at {} an hour\n  ({})\n", run, several, bounds[size_t(cost->bound)],
             readable(cost->hours), what, readable(cost->hours * options.pricePerHour), options.pricePerHour,
             isByClock ? "by the clock; without compilation"
                       : "by the least time of a step, so a real run takes longer; without compilation, evaluation and "
                         "checkpoints");
}

/// The same figures as one line of JSON; what is not known is null.
void writeJson(const Estimator &estimator, const StepFigures &step, std::span<const StepFigures> stages, int64_t limit,
               int64_t largest) {
  using Json = nlohmann::ordered_json;
  const TrainOptions &options = estimator.options;
  const std::optional<double> least = leastSeconds(step);
  const std::optional<RunCost> cost = costOf(step, options);
  const auto tokens = double(options.accumulate * options.batch * estimator.sequence);
  const auto orNull = [](bool isKnown, auto value) { return isKnown ? Json(value) : Json(); };
  constexpr const char *bounds[] = {"exactly", "at most", "at least"};
  const double hours = cost ? cost->hours : 0;
  Json plannedBytes = Json::array();
  for (const StepFigures &stage : stages)
    plannedBytes.push_back(stage.planned);
  const Json json = {{"model", options.model},
                     {"params", parameterCount(estimator.config)},
                     {"optimizer", options.optimizer},
                     {"batch", options.batch},
                     {"accumulate", options.accumulate},
                     {"seq", estimator.sequence},
                     {"dtype", std::string(options.productName())},
                     {"param_dtype", std::string(runtime::name(options.parameters))},
                     {"planned_bytes", step.planned},
                     {"weights_bytes", step.weights},
                     {"frozen_bytes", step.frozen},
                     {"moments_bytes", step.moments},
                     {"gradients_bytes", step.arena.updates},
                     {"activations_bytes", step.arena.values},
                     {"scratch_bytes", step.arena.scratch},
                     {"gaps_bytes", step.arena.unused},
                     {"other_bytes", step.others},
                     {"memory_bytes", limit},
                     {"largest_batch", largest},
                     {"least_step_ms", orNull(least.has_value(), least.value_or(0) * 1e3)},
                     {"products_ms", orNull(least.has_value(), step.productSeconds * 1e3)},
                     {"kernels_ms", orNull(least.has_value(), step.kernelSeconds * 1e3)},
                     {"most_tokens_per_second", orNull(least.has_value(), tokens / least.value_or(1))},
                     {"ranks", std::max<int64_t>(options.ranks, 1)},
                     {"zero", options.zero},
                     {"sent_bytes", step.sent},
                     {"planned_bytes_by_zero", plannedBytes},
                     {"hours", orNull(cost.has_value(), hours)},
                     {"dollars", orNull(cost.has_value(), hours * options.pricePerHour)},
                     {"bound", cost ? Json(bounds[size_t(cost->bound)]) : Json()},
                     {"dollars_per_hour", options.pricePerHour}};
  if (options.jsonFile == "-") {
    std::fputs((json.dump() + "\n").c_str(), stdout);
    return;
  }
  AtomicFile file(options.jsonFile);
  file.write(json.dump() + "\n");
  file.commit();
}

/// What ranks are for a plan.
void printRanks(std::FILE *output, const StepFigures &step, const TrainOptions &options) {
  constexpr double gigabit = 1e9 / 8;
  constexpr const char *shared[] = {"", " and the optimizer's states", " and the optimizer's states",
                                    ", the optimizer's states and parameters"};
  if (options.ranks > 1)
    fmt::print(
        output,
        "{} ranks share {} lanes{}; each has this memory, takes at least this time, and sends {:.3f} MB in a step: "
        "{:.3g} ms at 10 Gbit/s, {:.3g} ms at 100\n",
        options.ranks, *options.lanes, shared[options.zero], double(step.sent) / 1e6,
        double(step.sent) / (10 * gigabit) * 1e3, double(step.sent) / (100 * gigabit) * 1e3);
}

/// The last stage of --zero that the run can have.
int lastStageOf(const TrainOptions &options) {
  return lastStage(options.lanes.value_or(1), std::max<int64_t>(options.ranks, 1));
}

/// A rank's memory with each stage of --zero; `step` is that of options.zero.
std::vector<StepFigures> stagesOf(Estimator &estimator, const StepFigures &step) {
  std::vector<StepFigures> stages;
  if (estimator.options.ranks > 1 && !estimator.options.fastReduce)
    for (int zero = 0; zero <= lastStageOf(estimator.options); ++zero)
      stages.push_back(zero == estimator.options.zero ? step : estimator.figures(estimator.options.batch, zero));
  return stages;
}

void printStages(std::FILE *output, std::span<const StepFigures> stages) {
  for (size_t zero = 0; zero < stages.size(); ++zero) {
    const StepFigures &stage = stages[zero];
    const int64_t arena = stage.arena.updates + stage.arena.values + stage.arena.scratch + stage.arena.unused;
    const std::string evaluating =
        stage.evaluating > 0 ? fmt::format(", {:.3f} MB while it evaluates", double(stage.evaluating) / 1e6) : "";
    fmt::print(output, "  with --zero={} a rank needs {:.3f} MB (moments {:.3f}, arena {:.3f}){} and sends {:.3f} MB\n",
               zero, double(stage.planned) / 1e6, double(stage.moments) / 1e6, double(arena) / 1e6, evaluating,
               double(stage.sent) / 1e6);
  }
}

int64_t bytesOf(const RunDevice &device) {
  return (device.isGpu() ? device.device : runtime::makeCpuDevice())->memoryBytes();
}

} // namespace

int64_t largestBatch(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder) {
  Estimator estimator(options, device, folder);
  const int64_t limit = stepMemory(options, device);
  const int64_t bytes = estimator.figures(options.batch).needed();
  const int64_t largest = estimator.largestBatch(options.batch, bytes, limit);
  if (largest == 0)
    throw Error(fmt::format("--batch=auto: not even a batch of one row fits in {:.3f} GB; --remat=block or full, or a "
                            "smaller --seq, needs less",
                            double(limit) / 1e9));
  return largest;
}

int64_t stepMemory(const TrainOptions &options, const RunDevice &device, int64_t ranksHere) {
  return options.memoryLimit > 0 ? options.memoryLimit : bytesOf(device) / 10 * 9 / ranksHere;
}

std::string chooseZero(TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder,
                       int64_t limit) {
  std::string why = "--zero=auto:";
  Estimator estimator(options, device, folder);
  int64_t least = 0;
  for (int zero = 0; zero <= lastStageOf(options); ++zero) {
    const int64_t planned = estimator.figures(options.batch, zero).needed();
    why += fmt::format("{} stage {} takes {:.3f} MB", zero ? "," : "", zero, double(planned) / 1e6);
    if (zero == 0 || planned < least) {
      options.zero = zero;
      least = planned;
    }
    if (planned <= limit)
      return why + fmt::format(", which fits in {:.3f} MB", double(limit) / 1e6);
  }
  return why + fmt::format("; none fits in {:.3f} MB, and stage {} needs least", double(limit) / 1e6, options.zero);
}

void estimate(const TrainOptions &given, std::FILE *output) {
  TrainOptions options = plannedOptions(withoutData(given));
  findStartFolders(options);
  const RunDevice device = chooseDevice(options.device, options.tuning);
  if (!options.quiet)
    fmt::print(stderr, "{}\n", device.note);
  chooseProducts(options, device);
  const std::optional<ModelFolder> folder = openModelFolder(options);
  if (!options.clusterFile.empty())
    return reportCluster(options, device, folder, output);
  const int64_t limit = options.estimateMemory > 0 ? int64_t(options.estimateMemory)
                        : options.memoryLimit > 0  ? options.memoryLimit
                                                   : bytesOf(device);
  if (options.choosesZero && options.ranks > 1)
    fmt::print(output, "{}\n", chooseZero(options, device, folder, limit));
  Estimator estimator(options, device, folder);
  const StepFigures step = estimator.figures(options.batch);
  const std::string several = options.accumulate > 1 ? fmt::format("{} x ", options.accumulate) : "";
  fmt::print(output, "{}: {:.2f} M parameters in {}, {}; batch {}{} x {}, products in {}\n", options.model,
             double(parameterCount(estimator.config)) / 1e6, runtime::name(options.parameters), options.optimizer,
             several, options.batch, estimator.sequence, options.productName());
  printMemory(output, step);
  const int64_t largest = estimator.largestBatch(options.batch, step.needed(), limit);
  if (largest > 0)
    fmt::print(output, "the largest batch in {:.3f} GB: {}{}\n", double(limit) / 1e9, several, largest);
  else
    fmt::print(output, "not even a batch of one row fits in {:.3f} GB\n", double(limit) / 1e9);
  printRanks(output, step, options);
  const std::vector<StepFigures> stages = stagesOf(estimator, step);
  printStages(output, stages);
  printTime(output, step, options.accumulate * options.batch * estimator.sequence);
  printPrice(output, step, options, device.isGpu());
  if (!options.jsonFile.empty())
    writeJson(estimator, step, stages, limit, largest);
  std::fflush(output);
}

} // namespace tcc::models
