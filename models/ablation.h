// --ablate: trains with every switch on, and with one switch off at a time (frontend/ablation.h does the rounds).
#pragma once
#include "models/rung.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// For each switch that is on in a run with these options on a target, the option that switches it off. First come the
/// switches of the compiler (frontend/switches.h), then those of a run, and last -O0.
std::vector<std::string> ablationsOf(const TrainOptions &options, const std::string &targetName);

/// Trains with each switch off and, in turn with that, with all of them on, three times each. A table and what binds
/// the step go to `output`, one line of JSON to --json, a picture to --plot. `arguments` is the whole command line.
/// Gives the exit status.
int ablate(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output);

} // namespace tcc::models
