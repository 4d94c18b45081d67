#include "models/cluster_report.h"
#include "frontend/markup.h"
#include "models/estimator.h"
#include "models/json_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tcc::models {

namespace {

constexpr double daySeconds = 24 * 3600;

/// 1, 2, 4, … and `ranks`.
std::vector<int64_t> rankCounts(int64_t ranks) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count < ranks; count *= 2)
    counts.push_back(count);
  counts.push_back(ranks);
  return counts;
}

/// The options of a run of two ranks that have what each of options.ranks has: a plan of a thousand ranks would add a
/// thousand pieces in one kernel.
TrainOptions twoRanksOf(TrainOptions options) {
  const int64_t rows = options.batch / *options.lanes, lanes = std::max<int64_t>(1, *options.lanes / options.ranks);
  options.ranks = 2;
  options.lanes = 2 * lanes;
  options.batch = 2 * lanes * rows;
  return options;
}

/// What a failure takes from all ranks: the restart, and half of what lies between two checkpoints.
double secondsOfFailure(const Cluster &cluster, const TrainOptions &options, double stepSeconds) {
  constexpr double usualInterval = 1800;
  const double interval = options.checkpointEvery > 0 ? double(options.checkpointEvery) * stepSeconds : usualInterval;
  return cluster.restartSeconds + interval / 2;
}

ClusterRow rowOf(const Cluster &cluster, const TrainOptions &options, const StepEvents &events, int64_t ranks,
                 double tokensOfRank) {
  ClusterRow row;
  row.ranks = ranks;
  row.nodes = cluster.nodes(ranks);
  row.step = playThrough(cluster, events, ranks);
  if (cluster.failureHours > 0)
    row.failuresPerDay = 24 * double(ranks) / cluster.failureHours;
  const double lost = row.failuresPerDay * secondsOfFailure(cluster, options, row.step.seconds());
  row.lostShare = lost / (daySeconds + lost);
  row.tokensPerDay = tokensOfRank * double(ranks) / row.step.seconds() * daySeconds * (1 - row.lostShare);
  row.dollarsPerDay = 24 * double(ranks) * cluster.dollarsPerHour;
  return row;
}

/// 12345678 as "12.3 M".
std::string large(double value) {
  for (const auto &[unit, name] : {std::pair(1e15, "P"), {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= unit)
      return fmt::format("{:.3g} {}", value / unit, name);
  return fmt::format("{:.3g}", value);
}

void printTable(std::FILE *output, const std::vector<ClusterRow> &rows) {
  fmt::print(output, "  {:>6} {:>6} {:>12} {:>12} {:>12} {:>11} {:>12} {:>13} {:>10}\n", "ranks", "nodes", "step ms",
             "transfer ms", "exposed ms", "efficiency", "tokens/day", "dollars/day", "failures");
  for (const ClusterRow &row : rows)
    fmt::print(output, "  {:>6} {:>6} {:>12.3f} {:>12.3f} {:>12.3f} {:>9.1f} % {:>12} {:>13} {:>8.2f} %\n", row.ranks,
               row.nodes, row.step.seconds() * 1e3, row.step.transferSeconds * 1e3, row.step.exposedSeconds * 1e3,
               row.step.efficiency() * 100, large(row.tokensPerDay), large(row.dollarsPerDay), row.lostShare * 100);
}

void printMemory(std::FILE *output, const Cluster &cluster, const StepFigures &figures, int64_t ranks) {
  const double others = 1 - 1 / double(ranks), trained = double(figures.weights);
  const double stages[] = {0, double(figures.moments) * others, trained * others, trained * others};
  fmt::print(output, "memory of a rank, of {:.3f} GB:", cluster.memoryBytes / 1e9);
  double bytes = double(figures.planned);
  for (int stage = 0; stage < 4; ++stage) {
    bytes -= stages[stage];
    fmt::print(output, "{} {:.3f} GB{}",
               stage == 0   ? ""
               : stage == 1 ? "; with states shared out"
               : stage == 2 ? ", gradients too"
                            : ", weights too",
               bytes / 1e9, bytes > cluster.memoryBytes ? " (does not fit)" : "");
  }
  fmt::print(output,
             "\n  (the first is planned, the others are that less what ranks share out; --zero=1, 2 and 3 do)\n");
}

void writeRows(const std::string &path, const std::vector<ClusterRow> &rows) {
  std::string lines;
  for (const ClusterRow &row : rows) {
    const nlohmann::ordered_json json = {{"ranks", row.ranks},
                                         {"nodes", row.nodes},
                                         {"step_seconds", row.step.seconds()},
                                         {"compute_seconds", row.step.computeSeconds},
                                         {"transfer_seconds", row.step.transferSeconds},
                                         {"exposed_seconds", row.step.exposedSeconds},
                                         {"wait_seconds", row.step.waitSeconds},
                                         {"efficiency", row.step.efficiency()},
                                         {"tokens_per_day", row.tokensPerDay},
                                         {"dollars_per_day", row.dollarsPerDay},
                                         {"failures_per_day", row.failuresPerDay},
                                         {"lost_share", row.lostShare}};
    lines += json.dump() + "\n";
  }
  if (path == "-") {
    std::fputs(lines.c_str(), stdout);
    return;
  }
  AtomicFile file(path);
  file.write(lines);
  file.commit();
}

} // namespace

void reportCluster(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder,
                   std::FILE *output) {
  const Cluster cluster = readCluster(options.clusterFile);
  Estimator estimator(twoRanksOf(options), device, folder);
  const StepFigures figures = estimator.figures(estimator.options.batch);
  const bool isKnown = cluster.stepSeconds || (figures.events.computedSeconds > 0 && !figures.hasUnknownProducts);
  if (!isKnown)
    throw Error(fmt::format("{}: how long a step takes on this machine is not known, so the file must say it "
                            "(`step_ms`, measured on one processor)",
                            options.clusterFile));
  const int64_t rows = estimator.options.batch / 2;
  const double tokens = double(options.accumulate * rows * estimator.sequence);
  std::vector<ClusterRow> table;
  for (int64_t ranks : rankCounts(options.ranks))
    table.push_back(rowOf(cluster, options, figures.events, ranks, tokens));

  fmt::print(output, "{}: {:.2f} M parameters on up to {} ranks of {}, {} x {} tokens a step each\n", options.model,
             double(parameterCount(estimator.config)) / 1e6, options.ranks, inQuotes(cluster.name),
             options.accumulate * rows, estimator.sequence);
  fmt::print(output, "a rank computes {:.3f} ms ({})\n", table[0].step.computeSeconds * 1e3,
             cluster.stepSeconds ? "`step_ms`" : "the least time of this machine; `step_ms` in the file says another");
  printTable(output, table);
  TrainOptions whole = twoRanksOf(options);
  whole.zero = 0;
  const bool isWhole = options.zero == 0;
  printMemory(output, cluster, isWhole ? figures : Estimator(whole, device, folder).figures(whole.batch),
              options.ranks);
  const ClusterRow &last = table.back();
  if (last.failuresPerDay > 0) {
    const double seconds = secondsOfFailure(cluster, options, last.step.seconds());
    fmt::print(output, "{} ranks fail every {:.3g} hours; a failure costs {:.3g} minutes of all, {:.3g} dollars{}\n",
               options.ranks, 24 / last.failuresPerDay, seconds / 60, last.dollarsPerDay * seconds / daySeconds,
               options.checkpointEvery > 0 ? "" : " (with a checkpoint every 30 minutes; --checkpoint-every)");
  }
  if (!options.jsonFile.empty())
    writeRows(options.jsonFile, table);
  if (!options.plotFile.empty()) {
    AtomicFile file(options.plotFile);
    file.write(clusterPlot(table, fmt::format("{} on {}", options.model, cluster.name)));
    file.commit();
  }
  std::fflush(output);
}

std::string clusterPlot(const std::vector<ClusterRow> &rows, const std::string &title) {
  constexpr double width = 760, height = 400, left = 64, right = 40, top = 44, bottom = 52;
  const double doublings = std::max(1.0, std::log2(double(rows.back().ranks)));
  const auto x = [&](int64_t ranks) { return left + (width - left - right) * std::log2(double(ranks)) / doublings; };
  const auto y = [&](double share) { return height - bottom - (height - top - bottom) * share; };
  std::string out = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                                "height=\"{1}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
                                "fill=\"#333\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n<text x=\"{2}\" "
                                "y=\"24\" font-size=\"15\" font-weight=\"600\">{3}</text>\n",
                                width, height, left, markupText(title));
  for (int percent = 0; percent <= 100; percent += 20)
    out += fmt::format("<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#e4e4e4\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                       "text-anchor=\"end\">{5} %</text>\n",
                       left, y(percent / 100.0), width - right, left - 8, y(percent / 100.0) + 4, percent);
  std::string line, dots;
  double labelled = -100; // where the last number below the axis stands
  for (const ClusterRow &row : rows) {
    const double at = x(row.ranks), share = row.step.efficiency();
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", at, y(share));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#1f6fb4\"><title>{} ranks: {:.1f} %, {} "
                        "tokens a day</title></circle>\n",
                        at, y(share), row.ranks, share * 100, large(row.tokensPerDay));
    if (at - labelled < 40)
      continue;
    labelled = at;
    out += fmt::format("<path d=\"M{0:.1f} {1}v5\" stroke=\"#888\"/><text x=\"{0:.1f}\" y=\"{2}\" "
                       "text-anchor=\"middle\">{3}</text>\n",
                       at, height - bottom, height - bottom + 20, row.ranks);
  }
  out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\"/>\n{}", line, dots);
  return out +
         fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">ranks</text>\n<text transform=\"translate(16 "
                     "{}) rotate(-90)\" text-anchor=\"middle\">efficiency</text>\n</svg>\n",
                     (left + width - right) / 2, height - 10, (top + height - bottom) / 2);
}

} // namespace tcc::models
