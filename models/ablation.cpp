#include "models/ablation.h"
#include "models/estimator.h"
#include "models/run_device.h"
#include "models/run_setup.h"
#include "models/start_folders.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// A switch off beside everything on, in two rounds.
struct Ablation {
  RungResult off;
  double ratio = 1;  ///< tokens a second without the switch, of those with it; the mean of the rounds
  double spread = 0; ///< by how much the rounds' ratios differ
};

/// What the least time of a step goes to.
void printBound(std::FILE *output, const TrainOptions &given) {
  TrainOptions options = withoutData(given);
  findStartFolders(options);
  const RunDevice device = chooseDevice(options.device, options.tuning);
  chooseProducts(options, device);
  std::optional<ModelFolder> folder;
  if (!options.initFolder.empty())
    folder.emplace(options.initFolder);
  const StepFigures step = Estimator(options, device, folder).figures(options.batch);
  const double least = step.productSeconds + step.kernelSeconds;
  if (least <= 0 || step.hasUnknownProducts)
    return;
  fmt::print(output, "bound by {}: {:.0f} % of the least time of a step, {:.3g} ms, is products\n",
             step.productSeconds > step.kernelSeconds ? "products" : "memory traffic of kernels",
             100 * step.productSeconds / least, least * 1e3);
}

void printRow(std::FILE *output, const Ablation &row, const RungResult &whole) {
  fmt::print(output, "  {:<22} {:>8} {:>11.0f} {:>9.3f} {:>7.1f} % {:>11.1f}  {}\n", row.off.rung.name, row.off.kernels,
             row.off.tokensPerSecond, row.ratio, row.spread * 100, double(row.off.plannedBytes) / 1e6,
             row.off.plan == whole.plan ? "the same step" : "");
  std::fflush(output);
}

} // namespace

std::vector<Rung> ablationsOf(const TrainOptions &options) {
  std::vector<Rung> rungs;
  const auto add = [&](const char *name, const char *option) {
    rungs.push_back({.name = name, .options = {option}, .missing = {}, .script = {}});
  };
  for (const char *pass :
       {"-fno-simplify", "-fno-match-attention", "-fno-pad-shapes", "-fno-pack-attention", "-fno-fuse-epilogues"})
    if (const auto given = options.passes.find(pass + 5); given == options.passes.end() || given->second)
      add(pass, pass);
  if (options.level >= 2)
    add("-O1", "-O1");
  if (options.products != runtime::DType::f32 || options.chooseProducts)
    add("--dtype=f32", "--dtype=f32");
  if (options.parameters != runtime::DType::f32)
    add("--params=f32", "--params=f32");
  if (options.remat == Remat::block || options.remat == Remat::full)
    add("--remat=none", "--remat=none");
  if (!options.storesMask)
    add("--mask=stored", "--mask=stored");
  if (options.prefetches)
    add("--no-prefetch", "--no-prefetch");
  add("-O0", "-O0");
  return rungs;
}

int ablate(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output) {
  const Rung everything{.name = "everything", .options = {}, .missing = {}, .script = {}};
  RungResult whole = measure(everything, arguments, 1);
  whole.plan = planOf(everything, arguments);
  fmt::print(output, "  {:<22} {:>8} {:>11} {:>9} {:>9} {:>11}\n", "off", "kernels", "tokens/s", "of whole", "spread",
             "planned MB");
  printRow(output, {whole, 1, 0}, {});
  std::string json = jsonOf(whole);
  std::vector<Ablation> rows;
  for (const Rung &rung : ablationsOf(options)) {
    Ablation row;
    double ratios[2];
    for (double &ratio : ratios) {
      const double beside = measure(everything, arguments, 1).tokensPerSecond;
      const RungResult off = measure(rung, arguments, 1);
      ratio = off.tokensPerSecond / beside;
      whole.tokensPerSecond = std::max(whole.tokensPerSecond, beside);
      if (off.tokensPerSecond > row.off.tokensPerSecond)
        row.off = off;
    }
    row.ratio = (ratios[0] + ratios[1]) / 2;
    row.spread = std::abs(ratios[0] - ratios[1]);
    row.off.plan = planOf(rung, arguments);
    printRow(output, row, whole);
    json += jsonOf(row.off);
    rows.push_back(std::move(row));
  }
  const auto isSeen = [](const Ablation &row) { return row.off.rung.name != "-O0" && row.ratio + row.spread < 1; };
  const auto dearest =
      std::ranges::min_element(rows, {}, [&](const Ablation &row) { return isSeen(row) ? row.ratio : 2 + row.ratio; });
  if (isSeen(*dearest))
    fmt::print(output, "{} brings most: x{:.3f}\n", dearest->off.rung.name, 1 / dearest->ratio);
  else
    fmt::print(output, "no switch brings more than the runs differ\n");
  printBound(output, optionsOf(everything, arguments));
  if (!options.jsonFile.empty())
    writeText(options.jsonFile, json);
  return 0;
}

} // namespace tcc::models
