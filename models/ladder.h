// --ladder: the plain step, then one switch after the other, each trained for some steps: what each one brings.
#pragma once
#include "models/rung.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// The rungs for a run with these options on this device.
std::vector<Rung> rungsOf(const TrainOptions &options, bool isGpu, bool multipliesBf16Faster);

/// What is wrong with a rung beside the one before it: nothing has changed, or the loss is another. Empty: nothing.
std::string problemOf(const RungResult &before, const RungResult &now);

/// Trains each rung twice, for the steps that the arguments say or 12. `arguments` is the whole command line. A table
/// goes to `output`, JSON lines to --json, a picture to --plot. The exit status: 1 where a rung has a problem, which is
/// said.
int climbLadder(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output);

/// A bar for each rung's tokens a second, as an SVG text.
std::string ladderPlot(const std::vector<RungResult> &results, const std::string &title);

} // namespace tcc::models
