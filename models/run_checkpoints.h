// The checkpoints of a training run: its states and how far it came, to a CheckpointStore and back.
#pragma once
#include "frontend/array.h"
#include "models/checkpoint_store.h"
#include "models/model.h"
#include "models/run_state.h"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tcc::models {

class RunCheckpoints {
public:
  using Report = std::function<void(std::string_view)>;

  /// A new run in `folder`, or with `resume` one that goes on there. Throws Error where a new run would find
  /// checkpoints, and one that goes on finds none that is intact or one of another run than `start` describes. `report`
  /// is told how this run differs from the one that it goes on with.
  RunCheckpoints(const std::string &folder, int64_t keep, bool resume, RunState start, const Report &report);

  /// The state to go on from; step 0 of a new run.
  const RunState &state() const { return current; }
  bool resumed() const { return current.step > 0; }
  /// What is wrong with each checkpoint that is later than the one to go on from.
  const std::vector<std::string> &damaged() const { return damage; }

  /// Reads the states' values of the checkpoint that the run goes on from. Throws Error unless it holds each of
  /// them with its shape and type; of `scaling` (Function::lossScaling) what it has, since the run may have had
  /// another --dtype until then.
  void load(Model &model, const std::vector<State> &optimizer, const std::vector<State> &scaling) const;

  /// Writes a checkpoint: a Hugging Face folder (config.json, model.safetensors), or PEFT's where the model has an
  /// adapter to the weights of `base`, with the tokenizer, optimizer.safetensors and run.json beside them; `configText`
  /// is that of the folder that training began with. Throws Error where the system cannot; what was there before
  /// then stays.
  void write(const RunState &state, const Model &model, const std::vector<State> &optimizer,
             const std::string &configText, const std::string &base, const TokenizerFiles &tokenizer);

private:
  CheckpointStore store;
  RunState current;
  std::vector<std::string> damage;
};

} // namespace tcc::models
