// The compiled training step of a model, for tests and measurements.
#pragma once
#include "models/model.h"
#include <utility>

namespace tcc::test {

/// Tokens, targets, learning rate and step number (from 1) to loss and gradient norm. `model` and `optimizer` must
/// outlive the function.
inline Function compiledTrainingStep(const models::Model &model, optim::Optimizer &optimizer,
                                     FunctionOptions options = {}) {
  return compile(
      "training_step",
      [&](Tensor tokens, Tensor targets, Tensor lr, Tensor number) {
        const models::ModelStep results = models::trainingStep(model, optimizer, tokens, targets, lr, number);
        return std::pair{results.loss, results.norm};
      },
      std::move(options));
}

} // namespace tcc::test
