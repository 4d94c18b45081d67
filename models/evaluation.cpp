#include "models/evaluation.h"

#include <algorithm>

namespace tcc::models {

Evaluation::Evaluation(const Model &model, const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence,
                       int64_t count, bool packs, FunctionOptions function, RunRanks &ranks)
    : data(source, range, batch, sequence, Order::Sequential, 0, packs), count(std::min(count, data.batchesPerPass())),
      batch(batch), sequence(sequence), meanLoss(evaluationFunction(model, std::move(function))), ranks(ranks) {}

Function evaluationFunction(const Model &model, FunctionOptions options) {
  return compile(
      "held_out_loss", [model](Tensor tokens, Tensor targets) { return modelLoss(model, tokens, targets); },
      std::move(options));
}

double Evaluation::loss() {
  const Array tokens({batch, sequence}, DType::i32), targets({batch, sequence}, DType::i32); // not while steps run
  const int64_t each = (count + ranks.count() - 1) / ranks.count();
  std::vector<double> own(size_t(2 * each), 0.0); // a batch's sum, and the share of its places that have a target
  for (int64_t i = ranks.rank(); i < count; i += ranks.count()) {
    data.read(i, tokens.data<int32_t>(), targets.data<int32_t>());
    const std::span<const int32_t> read = targets.data<int32_t>();
    const double learned =
        double(std::ranges::count_if(read, [](int32_t target) { return target >= 0; })) / double(read.size());
    const auto place = size_t(2 * (i / ranks.count()));
    own[place] = meanLoss(tokens, targets)[0].item() * learned;
    own[place + 1] = learned;
  }
  const std::vector<std::vector<double>> all = ranks.gather(own);
  double sum = 0, share = 0;            // a share is 1, but in examples
  for (int64_t i = 0; i < count; ++i) { // in the order of the batches
    const std::vector<double> &part = all[size_t(i % ranks.count())];
    sum += part[size_t(2 * (i / ranks.count()))];
    share += part[size_t(2 * (i / ranks.count())) + 1];
  }
  return sum / share;
}

int64_t keptBytes(const runtime::Plan &plan) {
  int64_t bytes = plan.plannedBytes() - plan.arenaBytes;
  for (const auto *specs : {&plan.inputs, &plan.outputs, &plan.states})
    for (const runtime::TensorSpec &spec : *specs)
      bytes -= spec.bytes();
  return bytes;
}

int64_t bytesWhileEvaluating(const runtime::Plan &step, const runtime::Plan &evaluation) {
  int64_t bytes = evaluation.plannedBytes() + keptBytes(step);
  for (const runtime::TensorSpec &state : step.states)
    if (std::ranges::find(evaluation.states, state.name, &runtime::TensorSpec::name) == evaluation.states.end())
      bytes += state.bytes();
  for (const runtime::TensorSpec &input : step.inputs)
    if (!input.shape.empty()) // the numbers of a step, such as its rate, are there while it runs
      bytes += input.bytes();
  for (const runtime::TensorSpec &output : step.outputs)
    bytes += output.bytes();
  return bytes;
}

} // namespace tcc::models
