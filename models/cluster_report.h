// --estimate --cluster=FILE: a table over the number of ranks, and a picture of it.
#pragma once
#include "models/checkpoint.h"
#include "models/cluster.h"
#include "models/options.h"
#include "models/run_device.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// Plans the step of one rank, with the rows that it has on options.ranks ranks. For 1, 2, 4, … up to that many ranks
/// of the cluster, each with the same rows, it prints time, the part of the exchange that is not hidden, tokens, price
/// and failures. Then it prints the memory of a rank, also for states, gradients and weights that are divided among
/// ranks.
/// --json=FILE gets a line for each row of the table, --plot=FILE the picture. Throws Error for a bad file.
void reportCluster(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder,
                   std::FILE *output);

struct ClusterRow {
  int64_t ranks = 1, nodes = 1;
  ClusterStep step;
  double tokensPerDay = 0; ///< without the time that is lost by failures
  double dollarsPerDay = 0;
  double failuresPerDay = 0;
  double lostShare = 0; ///< the share of the time that is lost by failures
};

/// Efficiency over the number of ranks as an SVG text, which needs no scripts and no font files.
std::string clusterPlot(const std::vector<ClusterRow> &rows, const std::string &title);

} // namespace tcc::models
