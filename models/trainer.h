// A training run from its options to its last line: data, weights, compilation, loop, log, sample, checkpoint.
#pragma once
#include "models/options.h"

#include <cstdio>
#include <memory>

namespace tcc::runtime {
class Ranks;
}

namespace tcc::models {

/// Trains a model as `options` say. Progress goes to stderr (unless quiet), the generated text to `output`, and files
/// to where the options name them. Throws Error for bad data, folders and sizes, and if the step cannot be compiled or
/// run. Gives the exit status: 0; 1 if the log could not be written or the run has diverged; 128 + n if signal n ended
/// the loop early (SIGINT, SIGTERM: see StopRequest). In the last case a checkpoint is written if --checkpoint asks for
/// them, and all else is done as if the run had been that short. With `ranks`, all ranks call it and train one model
/// together; only the first one logs and writes.
int train(const TrainOptions &options, std::FILE *output = stdout, std::shared_ptr<runtime::Ranks> ranks = {});

} // namespace tcc::models
