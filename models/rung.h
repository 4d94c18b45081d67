// Rungs: short runs of one training with different options, which are compared with each other (ladder.h, ablation.h).
#pragma once
#include "models/options.h"

#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// A run with some options.
struct Rung {
  std::string name;
  std::vector<std::string> options; ///< as a command line has them; all that differ from a plain run
  /// By what share its last loss may differ from the one that it is compared with; nothing where it trains on other
  /// batches.
  std::optional<double> lossTolerance = 0;
  bool mayChangeNothing = false; ///< whether the plan may be the same as before; if not, that is an error
  std::string missing;           ///< why the rung cannot be had here; empty: it can
  std::string script;            ///< what it brought the PyTorch script that the ladder is measured beside; or empty
};

struct RungResult {
  Rung rung;
  std::string plan; ///< planOf(), where it was asked for
  int64_t kernels = 0, matmuls = 0, plannedBytes = 0, countedBytes = 0;
  double stepMs = 0;          ///< of the median step, the better of two runs
  double tokensPerSecond = 0; ///< … the same
  double spread = 0;          ///< by what share the other run was slower
  double lastLoss = 0;
  bool prefetches = true;             ///< which no plan shows
  std::optional<double> machineShare; ///< of the machine's peak of products
};

/// Trains the rung `rounds` times, for the steps that the arguments say or 12. `arguments` is the
/// whole command line. Throws Error where it cannot be trained.
RungResult measure(const Rung &rung, const std::vector<std::string> &arguments, int rounds);

/// A checksum of the plan of the rung's step.
std::string planOf(const Rung &rung, const std::vector<std::string> &arguments);

/// The options of the rung's runs.
TrainOptions optionsOf(const Rung &rung, const std::vector<std::string> &arguments);

/// What `result` is in a line of JSON.
std::string jsonOf(const RungResult &result);

/// Writes a text to a file, whole or not at all, or to stdout where the path is "-".
void writeText(const std::string &path, const std::string &text);

} // namespace tcc::models
