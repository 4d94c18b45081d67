// Estimates how long a training step takes on many ranks of a cluster, from the plan of the step on a few ranks. The
// plan's collectives are simulated with the links and the number of ranks that a file describes. Nothing runs.
#pragma once
#include "models/step_events.h"

#include <optional>
#include <string>

namespace tcc::models {

/// A link between processors, either of one node or of different nodes.
struct Link {
  double bytesPerSecond = 0; ///< what one processor sends while all of them send
  double startSeconds = 0;   ///< what a collective takes to start, whatever its size
  double hopSeconds = 0;     ///< what each processor that it sends to adds
};

struct Cluster {
  std::string name;
  int64_t perNode = 1; ///< processors of a node; each is a rank
  Link inside, between;
  double memoryBytes = 0;            ///< of a processor
  double dollarsPerHour = 0;         ///< for a processor
  std::optional<double> stepSeconds; ///< the measured time of a step on one processor with the rows of one rank
  double spread = 0;                 ///< standard deviation of the time of a rank's step, as a share of that time
  double failureHours = 0;           ///< mean time between failures of one processor; 0: none is known
  double restartSeconds = 0;         ///< from a failure to the first step after it

  int64_t nodes(int64_t ranks) const { return (ranks + perNode - 1) / perNode; }
};

/// Reads --cluster=FILE, a JSON object of at most 64 KiB. Throws Error with the file's name for a missing or unknown
/// key and for a value that is out of range.
Cluster readCluster(const std::string &path);

/// How long a collective takes on `ranks` ranks if nothing else runs: its start, a hop for each other rank, and the
/// time to send each of them its part of the bytes. The links inside of a node and between nodes are used one after the
/// other.
double transferSeconds(const Cluster &cluster, const Exchanged &exchange, int64_t ranks);

/// A step on `ranks` ranks. Collectives are over in the order in which they started.
struct ClusterStep {
  double computeSeconds = 0;  ///< of one rank
  double transferSeconds = 0; ///< of all its collectives, one after the other
  double exposedSeconds = 0;  ///< the part of transferSeconds for which the step waits
  double waitSeconds = 0;     ///< for the slowest rank: spread · √(2 ln ranks) of a step
  double seconds() const { return computeSeconds + exposedSeconds + waitSeconds; }
  double efficiency() const { return computeSeconds / seconds(); }
};
ClusterStep playThrough(const Cluster &cluster, const StepEvents &step, int64_t ranks);

} // namespace tcc::models
