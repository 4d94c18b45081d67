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

/// Plans a rank's step with the rows that it has on options.ranks ranks, and prints what it takes on 1, 2, 4, … and on
/// so many ranks of the cluster, each with the same rows: time, what of the exchange is not hidden, tokens, price,
/// failures; then a rank's memory, also as it would be with states, gradients and weights shared out. --json=FILE gets
/// a line for each row of the table, --plot=FILE the picture. Throws Error for a bad file.
void reportCluster(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder,
                   std::FILE *output);

struct ClusterRow {
  int64_t ranks = 1, nodes = 1;
  ClusterStep step;
  double tokensPerDay = 0; ///< with what failures take
  double dollarsPerDay = 0;
  double failuresPerDay = 0;
  double lostShare = 0; ///< of the time, by failures
};

/// Efficiency over the number of ranks as an SVG text, which needs no scripts and no font files.
std::string clusterPlot(const std::vector<ClusterRow> &rows, const std::string &title);

} // namespace tcc::models
