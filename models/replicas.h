// Replicas: how the copies of a run that its ranks hold become the same, and are seen to stay so. Alone, nothing is
// exchanged.
#pragma once
#include "models/model.h"
#include "models/run_ranks.h"
#include "models/run_state.h"
#include "models/train_log.h"
#include "runtime/plan.h"

#include <span>

namespace tcc::models {

/// What ranks must have in common before anything is read: this program, and all that a checkpoint says of a run.
RankFacts factsOf(const RunState &state);
/// Of the compiled step: its collectives, in their order.
RankFacts factsOf(const runtime::Plan &plan);
/// Of the parameters after a step: the hashes that the record has.
RankFacts factsOf(const StepRecord &record);

/// How far the run has come, as the first rank knows it, to all.
void shareProgress(RunRanks &ranks, RunState &state);
/// The first rank's parameters, and what else lives from step to step, to all.
void shareStates(RunRanks &ranks, Model &model, std::span<const State> kept);

} // namespace tcc::models
