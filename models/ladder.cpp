#include "models/ladder.h"
#include "codegen/targets.h"
#include "frontend/bar_plot.h"
#include "frontend/error.h"
#include "models/run_device.h"
#include "runtime/machine_limits.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

/// Passes that rungs switch on, one after the other.
constexpr const char *later[] = {"match-attention", "join-matmuls", "fuse-epilogues", "pad-shapes"};

/// -O1 without the passes from number `first` of `later` on.
std::vector<std::string> fusedWithout(size_t first) {
  std::vector<std::string> options{"-O1"};
  for (size_t i = first; i < std::size(later); ++i)
    options.push_back(std::string("-fno-") + later[i]);
  return options;
}

std::vector<std::string> together(std::vector<std::string> options, const std::vector<std::string> &more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

/// How many times `before` a number is, as "0.839"; empty where there is nothing before, or nothing is known.
std::string ratio(double now, double before) {
  return before > 0 && now > 0 ? fmt::format("{:.3f}", now / before) : "";
}

double megabytes(int64_t bytes) {
  return double(bytes) / 1e6;
}

void printHead(std::FILE *output) {
  fmt::print(output, "  {:<26} {:>8} {:>11} {:>7} {:>8} {:>8} {:>11} {:>8} {:>11} {:>8} {:>9}  {}\n", "rung", "kernels",
             "tokens/s", "spread", "x before", "x first", "planned MB", "x before", "counted MB", "machine", "loss",
             "script");
}

void printRow(std::FILE *output, const RungResult &now, const RungResult &before, const RungResult &first) {
  const std::string share = now.machineShare ? fmt::format("{:.1f} %", *now.machineShare * 100) : "-";
  fmt::print(output, "  {:<26} {:>8} {:>11.0f} {:>5.1f} % {:>8} {:>8} {:>11.1f} {:>8} {:>11.1f} {:>8} {:>9.4f}  {}\n",
             now.rung.name, now.kernels, now.tokensPerSecond, now.spread * 100,
             ratio(now.tokensPerSecond, before.tokensPerSecond), ratio(now.tokensPerSecond, first.tokensPerSecond),
             megabytes(now.plannedBytes), ratio(double(now.plannedBytes), double(before.plannedBytes)),
             megabytes(now.countedBytes), share, now.lastLoss, now.rung.script);
}

void printPlanHead(std::FILE *output) {
  fmt::print(output, "  {:<26} {:>8} {:>8} {:>11} {:>8} {:>8} {:>9} {:>11} {:>8}  {}\n", "rung", "kernels", "matmuls",
             "planned MB", "x before", "x first", "least ms", "tokens/s <=", "x before", "script");
}

void printPlanRow(std::FILE *output, const RungResult &now, const RungResult &before, const RungResult &first) {
  const bool isKnown = now.stepMs > 0;
  fmt::print(output, "  {:<26} {:>8} {:>8} {:>11.1f} {:>8} {:>8} {:>9} {:>11} {:>8}  {}\n", now.rung.name, now.kernels,
             now.matmuls, megabytes(now.plannedBytes), ratio(double(now.plannedBytes), double(before.plannedBytes)),
             ratio(double(now.plannedBytes), double(first.plannedBytes)),
             isKnown ? fmt::format("{:.1f}", now.stepMs) : "-",
             isKnown ? fmt::format("{:.0f}", now.tokensPerSecond) : "-",
             ratio(now.tokensPerSecond, before.tokensPerSecond), now.rung.script);
}

} // namespace

std::vector<Rung> rungsOf(const TrainOptions &options, const LadderDevice &device) {
  std::vector<Rung> rungs;
  const auto add = [&](Rung rung) { rungs.push_back(std::move(rung)); };
  // What rungs have on until a later one switches it: the type of matmuls, and how a GPU issues a step.
  std::vector<std::string> type = {"--dtype=f32"}, calls;
  if (device.isGpu)
    calls = {"-fno-cuda-graph"};
  const auto plain = [&](std::vector<std::string> more) {
    return together(together(together({"-O0"}, more), type), calls);
  };
  add({.name = "one kernel an op", .options = plain({"--mask=stored", "--no-prefetch"}), .missing = {}, .script = {}});
  add({.name = "mask by comparison",
       .options = plain({"--no-prefetch"}),
       .lossTolerance = 1e-5,
       .missing = {},
       .script = "1.000"});
  if (device.hasTf32)
    type = {"--dtype=tf32"};
  add({.name = "fast matmuls",
       .options = device.hasTf32 ? plain({"--no-prefetch"}) : std::vector<std::string>(),
       .lossTolerance = 0.01,
       .missing = device.hasTf32 ? ""
                  : device.isGpu ? "this GPU has no TF32"
                                 : "TF32 is of GPUs; a CPU multiplies f32 by its widest instructions on every rung",
       .script = "2.207 (TF32)"});
  add({.name = "fused optimizer",
       .options = plain({"-ffuse-optimizer", "--no-prefetch"}),
       .lossTolerance = 1e-5,
       .missing = {},
       .script = "1.027"});
  add({.name = "prefetched input", .options = plain({"-ffuse-optimizer"}), .missing = {}, .script = "1.000 (pinned)"});
  add({.name = "algebra, shared sums",
       .options = plain({"-ffuse-optimizer", "-fsimplify"}),
       .lossTolerance = device.hasTf32 ? 2e-3 : 1e-4, // another order of sums also rounds to other values of TF32
       .missing = {},
       .script = {}});
  if (device.gainsFromBf16)
    type = {"--dtype=bf16"};
  add({.name = "16-bit matmuls",
       .options = device.gainsFromBf16 ? plain({"-ffuse-optimizer", "-fsimplify"}) : std::vector<std::string>(),
       .lossTolerance = 0.02,
       .missing = device.gainsFromBf16 ? "" : "this machine multiplies bf16 no faster than f32",
       .script = {}});
  const auto fused = [&](size_t first) { return together(together(fusedWithout(first), type), calls); };
  add({.name = "fusion",
       .options = fused(0),
       .lossTolerance = 1e-3,
       .missing = {},
       .script = "1.215 and 1.219, memory 0.839"});
  add({.name = "attention matched",
       .options = fused(1),
       .lossTolerance = 1e-2,
       .missing = {},
       .script = "1.663, memory 0.510"});
  add({.name = "matmuls of one value joined",
       .options = fused(2),
       .lossTolerance = 1e-2,
       .mayChangeNothing = true, // the target's model decides, and few CPUs gain
       .missing = {},
       .script = {}});
  add({.name = "epilogues",
       .options = fused(3),
       .lossTolerance = 1e-2,
       .mayChangeNothing = true, // without biases before attention no sum of a matmul is stored anyway
       .missing = {},
       .script = {}});
  add({.name = "padding",
       .options = fused(4),
       .lossTolerance = 1e-2,
       .mayChangeNothing = true,
       .missing = {},
       .script = "1.137"});
  add({.name = "cheap values again (-O2)",
       .options = together(together({"-O2"}, type), calls),
       .lossTolerance = 1e-2,
       .mayChangeNothing = true,
       .missing = {},
       .script = {}});
  std::vector<std::string> all = together({"-O2"}, type);
  add({.name = "one graph a step",
       .options = device.isGpu ? all : std::vector<std::string>(),
       .lossTolerance = 0,
       .missing = device.isGpu ? "" : "CUDA has graphs; a processor runs the step's plan itself",
       .script = {}});
  Rung narrowParameters{.name = "16-bit parameters",
                        .options = together(all, {"--params=bf16"}),
                        .lossTolerance = 0.05,
                        .missing = {},
                        .script = "1.602, memory 0.525"};
  if (options.loraRank > 0 || !options.adapterFolder.empty())
    narrowParameters.missing = "adapters are f32";
  else
    all = narrowParameters.options;
  add(std::move(narrowParameters));
  all.push_back(fmt::format("--batch={}", 2 * options.batch));
  add({.name = "twice the batch", .options = all, .lossTolerance = {}, .missing = {}, .script = "1.116"});
  all.push_back("--remat=block");
  add({.name = "computed again by blocks", .options = all, .lossTolerance = 1e-3, .missing = {}, .script = {}});
  return rungs;
}

std::string problemOf(const RungResult &before, const RungResult &now) {
  if (runTheSame(before, now) && now.rung.mayChangeNothing)
    return {};
  if (runTheSame(before, now))
    return fmt::format("rung '{}' has the plan of '{}': its switch switches nothing", now.rung.name, before.rung.name);
  if (!before.wasTrained || !now.wasTrained)
    return {};
  const double difference = std::abs(now.lastLoss - before.lastLoss);
  if (now.rung.lossTolerance && !(difference <= *now.rung.lossTolerance * std::abs(before.lastLoss)))
    return fmt::format("rung '{}' ends at a loss of {:.5f}, '{}' at {:.5f}; {:g} of it is allowed", now.rung.name,
                       now.lastLoss, before.rung.name, before.lastLoss, *now.rung.lossTolerance);
  return {};
}

static LadderDevice ladderDevice(const RunDevice &device, int threads) {
  if (!device.isGpu())
    return {.gainsFromBf16 = runtime::machineLimits(threads).gainsFromBf16()};
  const auto target = makeTarget(device.device->codeTarget(), {}, threads);
  if (!target)
    throw Error(target.error().message());
  const Target::FastProducts fast = (*target)->fastProducts();
  return {.isGpu = true, .gainsFromBf16 = fast.bf16, .hasTf32 = fast.tf32};
}

int climbLadder(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output) {
  const RunDevice device = chooseDevice(options.device, options.tuning);
  if (!options.quiet)
    fmt::print(stderr, "{}\n", device.note);
  fmt::print(output,
             "the ladder of {}: {}; 'script' is what the switch brought a PyTorch script on an A100 (whole 11.35)\n",
             options.model,
             options.estimate ? "the plan of each rung, and the least time that the machine's limits allow it"
                              : "each rung twice, the better run's median step");
  options.estimate ? printPlanHead(output) : printHead(output);
  std::vector<RungResult> results;
  std::string json;
  int problems = 0;
  for (const Rung &rung : rungsOf(options, ladderDevice(device, options.threads))) {
    if (!rung.missing.empty()) {
      fmt::print(output, "  {:<26} not here: {}\n", rung.name, rung.missing);
      json += nlohmann::ordered_json{{"rung", rung.name}, {"missing", rung.missing}}.dump() + "\n";
      continue;
    }
    RungResult result = plan(rung, arguments);
    if (!options.estimate) {
      RungResult trained = measure(rung, arguments, 2);
      trained.plan = std::move(result.plan);
      result = std::move(trained);
    }
    const RungResult before = results.empty() ? RungResult() : results.back();
    (options.estimate ? printPlanRow : printRow)(output, result, before, results.empty() ? result : results.front());
    fmt::print(output, "      {}\n", fmt::join(result.rung.options, " "));
    if (!results.empty() && runTheSame(before, result) && rung.mayChangeNothing)
      fmt::print(output, "      changes nothing at these sizes\n");
    std::fflush(output);
    if (const std::string problem = results.empty() ? "" : problemOf(before, result); !problem.empty()) {
      fmt::print(stderr, "error: {}\n", problem);
      ++problems;
    }
    json += jsonOf(result);
    results.push_back(std::move(result));
  }
  fmt::print(output, "always on: one plan for a whole step\n");
  if (!options.jsonFile.empty())
    writeText(options.jsonFile, json);
  if (!options.plotFile.empty())
    writeText(options.plotFile, ladderPlot(results, fmt::format("the ladder of {}", options.model)));
  return problems > 0 ? 1 : 0;
}

std::string ladderPlot(const std::vector<RungResult> &results, const std::string &title) {
  std::vector<Bar> bars;
  for (const RungResult &result : results) {
    const bool wasTrained = result.wasTrained;
    const double bytes = double(result.plannedBytes), first = double(results.front().plannedBytes);
    bars.push_back({.name = result.rung.name,
                    .value = wasTrained ? result.tokensPerSecond : bytes,
                    .text = wasTrained ? fmt::format("{:.0f} tokens/s, x{:.2f}", result.tokensPerSecond,
                                                     result.tokensPerSecond / results.front().tokensPerSecond)
                                       : fmt::format("{:.0f} MB planned, x{:.2f}", bytes / 1e6, bytes / first),
                    .tooltip = fmt::format("{}", fmt::join(result.rung.options, " "))});
  }
  return barPlot(bars, title);
}

} // namespace tcc::models
