// A training run from its options to its last line: data, weights, compilation, loop, log, sample, checkpoint.
#pragma once
#include "models/options.h"

#include <cstdio>
#include <memory>

namespace tcc::runtime {
class Ranks;
}

namespace tcc::models {

/// Trains a GPT-2 on the CPU as `options` says. Progress goes to stderr (unless quiet), the generated text to `output`,
/// files where the options name them. Throws Error for bad data, folders and sizes, tcc::Error where the step
/// cannot be compiled or run. The exit status: 0; 1 where the log could not be written or the run has diverged; 128 + n
/// where signal n ended the loop early (SIGINT, SIGTERM: see StopRequest), with a checkpoint where --checkpoint asks
/// for them, all else being done as if the run had been that short. With `ranks` all of them call it: they train one
/// model together, and the first one alone logs and writes.
int train(const TrainOptions &options, std::FILE *output = stdout, std::shared_ptr<runtime::Ranks> ranks = {});

} // namespace tcc::models
