// --ablate: the whole step, and the same with one switch off at a time (frontend/ablation.h), as runs.
#pragma once
#include "models/rung.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// An option for each switch that is on in a run with these options on a target, which switches it off: the compiler's
/// (frontend/switches.h), and those of a run; last -O0.
std::vector<std::string> ablationsOf(const TrainOptions &options, const std::string &targetName);

/// Trains with each switch off, each time beside a run with all of them on, in turn, three times. A table and what the
/// step is bound by go to `output`, one line of JSON to --json, a picture to --plot. `arguments` is the whole command
/// line. The exit status.
int ablate(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output);

} // namespace tcc::models
