// The loss on tokens that are not trained on.
#pragma once
#include "frontend/compile.h"
#include "models/batches.h"
#include "models/model.h"
#include "models/run_ranks.h"

#include <cstdint>

namespace tcc::models {

class Evaluation {
public:
  /// Up to `count` batches from the start of `range`, the same ones at every call. `source` must outlive this object;
  /// `packs` is as for Batches, `function` holds threads, level and passes. Throws Error where the range is shorter
  /// than a batch. `ranks` share the batches out, and must outlive this object.
  Evaluation(const Model &model, const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence,
             int64_t count, bool packs, FunctionOptions function, RunRanks &ranks);

  /// Mean cross-entropy of the tokens that are learned, with the parameters as they are; the same bits for any number
  /// of ranks.
  double loss();
  int64_t batches() const { return count; }

private:
  Batches data;
  int64_t count;
  Array tokens, targets;
  Function meanLoss;
  RunRanks &ranks;
};

} // namespace tcc::models
