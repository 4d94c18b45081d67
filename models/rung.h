// A rung is a short training run with some options switched on. --ladder (ladder.h) adds one option after the other and
// --ablate (ablation.h) leaves one out; both compare the rungs with each other.
#pragma once
#include "models/options.h"

#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// What is trained, and what the comparison with another rung may show.
struct Rung {
  std::string name;
  std::vector<std::string> options; ///< what is added to the user's command line
  /// By what share its last loss may differ from that of the rung it is compared with. There is no value where it
  /// trains on other batches, so that losses cannot be compared.
  std::optional<double> lossTolerance = 0;
  bool mayChangeNothing = false; ///< whether the plan may equal the one before; if it may not, that is an error
  std::string missing;           ///< why this machine cannot train it; empty: it can
  /// How many times faster the same change makes a published PyTorch script with the same ladder; empty if not known.
  std::string script;
};

struct RungResult {
  Rung rung;
  std::string plan;        ///< a checksum of the plan of the rung's step; empty in an ablation
  bool wasTrained = false; ///< if not, its time is the least by the machine's limits, and it has no loss
  int64_t kernels = 0, matmuls = 0, plannedBytes = 0, countedBytes = 0;
  double stepMs = 0;          ///< of the median step, the better of two runs; 0 where no limit is known
  double tokensPerSecond = 0; ///< in that step
  double spread = 0;          ///< by what share the slower run's median step was longer
  double lastLoss = 0;
  bool prefetches = true;             ///< whether batches are read ahead; plans do not say it
  bool captures = true;               ///< whether a GPU runs a step as one graph; plans do not say it either
  std::optional<double> machineShare; ///< the share of the fastest matmuls that this machine was measured to do
};

/// Trains the rung `rounds` times, each time for as many steps as `arguments` (the whole command line) says, or 12.
/// Throws Error where it cannot be trained.
RungResult measure(const Rung &rung, const std::vector<std::string> &arguments, int rounds);

/// The rung by the plan of its step alone, for --estimate: nothing is trained, and no memory is taken for it.
RungResult plan(const Rung &rung, const std::vector<std::string> &arguments);

/// Whether both have one plan, and their steps are also run in one way.
bool runTheSame(const RungResult &a, const RungResult &b);

/// The options of `arguments` with those of the rung.
TrainOptions optionsOf(const Rung &rung, const std::vector<std::string> &arguments);

/// The result as one line of JSON.
std::string jsonOf(const RungResult &result);

/// Writes a text to a file, whole or not at all, or to stdout where the path is "-".
void writeText(const std::string &path, const std::string &text);

} // namespace tcc::models
