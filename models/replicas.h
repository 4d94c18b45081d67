// Replicas: each rank of a run holds a copy of its states. These functions make the copies the same, and check that
// they stay so. A process that is alone exchanges nothing.
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
/// The facts of the compiled step: its collectives, in their order.
RankFacts factsOf(const runtime::Plan &plan);
/// The facts of the parameters after a step: the hashes that the record has.
RankFacts factsOf(const StepRecord &record);

/// Puts the hash of each trained parameter, as it is now, into the record.
void addHashes(StepRecord &record, const Model &model);

/// Tells all ranks how far the run has come, as the first rank knows it.
void shareProgress(RunRanks &ranks, RunState &state);
/// Gives all ranks the first rank's parameters, and whatever else lives from step to step.
void shareStates(RunRanks &ranks, Model &model, std::span<const State> kept);

} // namespace tcc::models
