#include "models/evaluation.h"

#include <algorithm>

namespace tcc::models {

Evaluation::Evaluation(const Model &model, const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence,
                       int64_t count, FunctionOptions function, RunRanks &ranks)
    : data(source, range, batch, sequence, Order::Sequential, 0), count(std::min(count, data.batchesPerPass())),
      tokens({batch, sequence}, DType::i32), targets({batch, sequence}, DType::i32),
      meanLoss(compile(
          "held_out_loss", [model](Tensor tokens, Tensor targets) { return modelLoss(model, tokens, targets); },
          std::move(function))),
      ranks(ranks) {}

double Evaluation::loss() {
  const int64_t each = (count + ranks.count() - 1) / ranks.count();
  std::vector<double> own(size_t(each), 0.0);
  for (int64_t i = ranks.rank(); i < count; i += ranks.count()) {
    data.read(i, tokens.data<int32_t>(), targets.data<int32_t>());
    own[size_t(i / ranks.count())] = meanLoss(tokens, targets)[0].item();
  }
  const std::vector<std::vector<double>> all = ranks.gather(own);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) // in the order of the batches
    sum += all[size_t(i % ranks.count())][size_t(i / ranks.count())];
  return sum / double(count);
}

} // namespace tcc::models
