// Evaluation: computes the loss on tokens that are not trained on.
#pragma once
#include "frontend/compile.h"
#include "models/batches.h"
#include "models/model.h"
#include "models/run_ranks.h"

#include <cstdint>

namespace tcc::models {

class Evaluation {
public:
  /// Evaluates up to `count` batches from the start of `range`, the same ones at every call. `packs` is as for Batches;
  /// `function` holds threads, level and passes. `ranks` divide the batches among them. `source` and `ranks` must
  /// outlive this object. Throws Error if the range is shorter than a batch.
  Evaluation(const Model &model, const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence,
             int64_t count, bool packs, FunctionOptions function, RunRanks &ranks);

  /// The mean cross-entropy of the tokens that are learned, with the current parameters. It has the same bits for any
  /// number of ranks.
  double loss();
  int64_t batches() const { return count; }

private:
  Batches data;
  int64_t count, batch, sequence;
  Function meanLoss;
  RunRanks &ranks;
};

} // namespace tcc::models
