#include "models/evaluation.h"

#include <algorithm>

namespace tcc::models {

Evaluation::Evaluation(const Model &model, const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence,
                       int64_t count, FunctionOptions function)
    : data(source, range, batch, sequence, Order::Sequential, 0), count(std::min(count, data.batchesPerPass())),
      tokens({batch, sequence}, DType::i32), targets({batch, sequence}, DType::i32),
      meanLoss(compile(
          "held_out_loss", [model](Tensor tokens, Tensor targets) { return modelLoss(model, tokens, targets); },
          std::move(function))) {}

double Evaluation::loss() {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    data.read(i, tokens.data<int32_t>(), targets.data<int32_t>());
    sum += meanLoss(tokens, targets)[0].item();
  }
  return sum / double(count);
}

} // namespace tcc::models
