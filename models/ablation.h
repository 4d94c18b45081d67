// --ablate: the whole step, and the same with one switch off at a time.
#pragma once
#include "models/rung.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// A run for each switch that is on in a run with these options, without it.
std::vector<Rung> ablationsOf(const TrainOptions &options);

/// Trains with each switch off, each time right after a run with all of them on, twice; prints what each brings, and
/// what the step is bound by. `arguments` is the whole command line. JSON lines go to --json. The exit status.
int ablate(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output);

} // namespace tcc::models
