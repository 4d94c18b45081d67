// Evaluation: computes the loss on tokens that are not trained on.
#pragma once
#include "frontend/compile.h"
#include "models/batches.h"
#include "models/model.h"
#include "models/run_ranks.h"
#include "runtime/plan.h"

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
  /// The evaluation as it was compiled; null before the first loss().
  std::shared_ptr<runtime::Executable> executable() { return meanLoss.executable(); }

private:
  Batches data;
  int64_t count, batch, sequence;
  Function meanLoss;
  RunRanks &ranks;
};

/// The mean loss of a batch: of tokens and targets.
Function evaluationFunction(const Model &model, FunctionOptions options);

/// What lives while a run evaluates, as planned: what the evaluation needs, whose arena the training step shares, and
/// of the step its batch, its results, its constants, and the states that the evaluation does not read.
int64_t bytesWhileEvaluating(const runtime::Plan &step, const runtime::Plan &evaluation);
/// The bytes of a plan's constants and tables, which a function keeps between its calls.
int64_t keptBytes(const runtime::Plan &plan);

} // namespace tcc::models
