// --ladder: trains the plain step for some steps, then again with one switch added after the other, to show what each
// one gains.
#pragma once
#include "models/rung.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// What of a device decides which rungs it has.
struct LadderDevice {
  bool isGpu = false;
  bool gainsFromBf16 = false; ///< whether it multiplies bf16 faster than f32
  bool hasTf32 = false;
};

/// The rungs for a run with these options on this device.
std::vector<Rung> rungsOf(const TrainOptions &options, const LadderDevice &device);

/// What is wrong with a rung compared with the one before it: nothing has changed, or the loss differs. Empty if
/// nothing is wrong.
std::string problemOf(const RungResult &before, const RungResult &now);

/// Trains each rung twice, for the steps that the arguments say or 12; with --estimate it plans each rung and trains
/// none. `arguments` is the whole command line. A table goes to `output`, JSON lines to --json, a picture to --plot.
/// Gives the exit status, which is 1 if a rung has a problem; the problem is printed.
int climbLadder(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output);

/// A bar for each rung's tokens a second, as an SVG text; for its planned bytes if it was not trained.
std::string ladderPlot(const std::vector<RungResult> &results, const std::string &title);

} // namespace tcc::models
