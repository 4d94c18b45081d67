// Says what a training run will need, from the plan of its step alone. Nothing is trained, and no weights are made.
#pragma once
#include "models/checkpoint.h"
#include "models/options.h"
#include "models/run_device.h"

#include <cstdio>
#include <optional>
#include <string>

namespace tcc::models {

/// --estimate: plans the training step and prints its memory by component, the largest batch whose step fits in
/// options.estimateMemory (or the memory limit, or the device's memory), the time of a step at the device's limits, and
/// by it what a run of the length that was asked for takes and costs. Evaluation and samples, which have steps of their
/// own, do not count. Throws Error where the options do not go together.
void estimate(const TrainOptions &options, std::FILE *output);

/// --batch=auto: the most rows whose step, with the recomputation that the options name, fits in options.memoryLimit,
/// or in nine tenths of the device's memory. Throws Error where not one row does.
int64_t largestBatch(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder);

/// What a step may take on one of so many ranks of this machine: options.memoryLimit, or a share of nine tenths of the
/// device's memory.
int64_t stepMemory(const TrainOptions &options, const RunDevice &device, int64_t ranksHere = 1);

/// --zero=auto: sets options.zero to the first stage whose step fits in `limit` bytes on each of options.ranks, or, if
/// none does, to the stage that needs least. Gives the reason, for the user.
std::string chooseZero(TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder,
                       int64_t limit);

} // namespace tcc::models
