// What a training run checks and writes down before its first step.
#pragma once
#include "frontend/optim.h"
#include "models/checkpoint.h"
#include "models/data.h"
#include "models/options.h"
#include "models/run_state.h"

#include <optional>
#include <string>

namespace tcc::models {

/// Refuses with an InputError what is beyond the machine's memory, which `what` needs `bytes` of; the system would end
/// the program later.
void checkMemory(const std::string &what, double bytes);

/// Refuses a --seq beyond the model's positions with an InputError.
void checkSequence(const TrainOptions &options, const ModelConfig &config);

/// The folder's configuration, or that of the options, checked against the rest of the command line and the machine.
ModelConfig trainedConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder);

optim::AdamwSettings adamwSettings(const TrainOptions &options);

/// What a run's checkpoints say of it, at step 0.
RunState describeRunState(const TrainOptions &options, const ModelConfig &config, int64_t sequence,
                          const TokenSource &data);

} // namespace tcc::models
