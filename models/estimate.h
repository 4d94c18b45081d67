// What a training run will need, from the plan of its step alone: nothing is trained, and no weights are made.
#pragma once
#include "models/options.h"

#include <cstdio>

namespace tcc::models {

/// --estimate: plans the training step and prints its memory by component, the largest batch whose step fits in
/// options.memoryLimit (or the device's memory), and the time of a step at the device's limits. Evaluation and samples,
/// which have steps of their own, do not count. Throws Error where the options do not go together.
void estimate(const TrainOptions &options, std::FILE *output);

} // namespace tcc::models
