// --estimate: the memory and time of a step, and the largest batch that fits.
#include "models/estimate.h"
#include "frontend/quotes.h"
#include "models/cluster_report.h"
#include "models/estimator.h"
#include "models/run_device.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "models/start_folders.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

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
  fmt::print(output, "  ({} bytes; gradients to gaps are the arena, at its fullest moment, `{}`)\n", step.planned,
             step.arena.fullest);
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

/// What the whole run takes and costs. Steps are counted with their least time, so a real run takes longer; an end by
/// the clock is exact. Each rank is taken to have a processor of its own: several on one take as much of it.
void printPrice(std::FILE *output, const StepFigures &step, const TrainOptions &options, bool isGpu) {
  const RunLength &length = options.schedule.length;
  const double stepSeconds = step.productSeconds + step.kernelSeconds;
  const bool isKnown = !step.hasUnknownProducts && stepSeconds > 0;
  const char *what = isGpu ? "GPU-hours" : "processor-hours";
  const auto ranks = double(std::max<int64_t>(options.ranks, 1));
  const std::string several = options.ranks > 1 ? fmt::format(" of {} ranks", options.ranks) : "";
  const auto print = [&](const std::string &run, const char *bound, double seconds, const char *basis) {
    const double hours = seconds / 3600 * ranks;
    fmt::print(output, "{}{}: {}{} {}, {} dollars at {} an hour\n  ({})\n", run, several, bound, readable(hours), what,
               readable(hours * options.pricePerHour), options.pricePerHour, basis);
  };
  const std::string steps = length.steps ? fmt::format("{} step{}", *length.steps, *length.steps == 1 ? "" : "s") : "";
  const double stepsSeconds = length.steps ? double(*length.steps) * stepSeconds : 0;
  if (length.seconds && (!length.steps || !isKnown || stepsSeconds >= *length.seconds)) {
    const std::string run = fmt::format("{:g} minutes{}", *length.seconds / 60, length.steps ? " or " + steps : "");
    print(run, length.steps && !isKnown ? "at most " : "", *length.seconds, "by the clock; without compilation");
  } else if (!isKnown) {
    fmt::print(output, "{}{}: {} and price are not known, as the time of a step is not\n", steps, several, what);
  } else {
    print(steps, "at least ", stepsSeconds,
          "by the least time of a step, so a real run takes longer; without compilation, evaluation and checkpoints");
  }
}

/// What ranks are for a plan.
void printRanks(std::FILE *output, const StepFigures &step, const TrainOptions &options) {
  constexpr double gigabit = 1e9 / 8;
  if (options.ranks > 1)
    fmt::print(
        output,
        "{} ranks share {} lanes; each has this memory, takes at least this time, and sends {:.3f} MB in a step: "
        "{:.3g} ms at 10 Gbit/s, {:.3g} ms at 100\n",
        options.ranks, *options.lanes, double(step.sent) / 1e6, double(step.sent) / (10 * gigabit) * 1e3,
        double(step.sent) / (100 * gigabit) * 1e3);
}

int64_t bytesOf(const RunDevice &device) {
  return (device.isGpu() ? device.device : runtime::makeCpuDevice())->memoryBytes();
}

} // namespace

int64_t largestBatch(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder) {
  Estimator estimator(options, device, folder);
  const int64_t limit = options.memoryLimit > 0 ? options.memoryLimit : bytesOf(device) / 10 * 9;
  const int64_t bytes = estimator.figures(options.batch).planned;
  const int64_t largest = estimator.largestBatch(options.batch, bytes, limit);
  if (largest == 0)
    throw Error(fmt::format("--batch=auto: not even a batch of one row fits in {:.3f} GB; --remat=block or full, or a "
                            "smaller --seq, needs less",
                            double(limit) / 1e9));
  return largest;
}

void estimate(const TrainOptions &given, std::FILE *output) {
  TrainOptions options = plannedOptions(withoutData(given));
  findStartFolders(options);
  const RunDevice device = chooseDevice(options.device, options.tuning);
  if (!options.quiet)
    fmt::print(stderr, "{}\n", device.note);
  chooseProducts(options, device);
  std::optional<ModelFolder> folder;
  if (!options.initFolder.empty())
    folder.emplace(options.initFolder);
  if (!options.clusterFile.empty())
    return reportCluster(options, device, folder, output);
  Estimator estimator(options, device, folder);
  const StepFigures step = estimator.figures(options.batch);
  const std::string several = options.accumulate > 1 ? fmt::format("{} x ", options.accumulate) : "";
  fmt::print(output, "{}: {:.2f} M parameters in {}, {}; batch {}{} x {}, products in {}\n", options.model,
             double(parameterCount(estimator.config)) / 1e6, runtime::name(options.parameters), options.optimizer,
             several, options.batch, estimator.sequence, runtime::name(options.products));
  printMemory(output, step);
  const int64_t limit = options.estimateMemory > 0 ? int64_t(options.estimateMemory)
                        : options.memoryLimit > 0  ? options.memoryLimit
                                                   : bytesOf(device);
  if (const int64_t largest = estimator.largestBatch(options.batch, step.planned, limit))
    fmt::print(output, "the largest batch in {:.3f} GB: {}{}\n", double(limit) / 1e9, several, largest);
  else
    fmt::print(output, "not even a batch of one row fits in {:.3f} GB\n", double(limit) / 1e9);
  printRanks(output, step, options);
  printTime(output, step, options.accumulate * options.batch * estimator.sequence);
  printPrice(output, step, options, device.isGpu());
  std::fflush(output);
}

} // namespace tcc::models
