#include "models/estimator.h"
#include "ir/lanes.h"
#include "models/evaluation.h"
#include "models/generate.h"
#include "models/model.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "runtime/device/limits.h"
#include "runtime/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace tcc::models {

namespace {

TrainOptions withoutLimit(TrainOptions options) {
  options.memoryLimit = 0;
  return options;
}

} // namespace

Estimator::Estimator(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder)
    : options(withoutLimit(options)), device(device), config(trainedConfig(options, folder)),
      sequence(options.sequence.value_or(config.positions())),
      model(config, trainedAdapter(options, config, openAdapter(options, config)), options.parameters),
      optimizer(makeOptimizer(options, model.trained())),
      limits(device.isGpu() ? runtime::measureLimits(device.device, options.products, options.tf32)
                            : runtime::machineLimits(options.threads)) {
  if (options.storesMask)
    model.storeMask(sequence);
}

runtime::Plan Estimator::plan(int64_t batch, int zero, int64_t rank) {
  const DropoutRates dropout = trainedDropout(options, config);
  FunctionOptions function = functionOptions(options, device, stepInputNames(dropout), {"loss", "norm"}, {});
  function.ranks = plannedRanks(options.ranks, rank);
  function.fastReduce = options.fastReduce;
  function.zero = zero;
  Function step = trainingFunction(options, model, *optimizer, std::move(function));
  return step.plan(emptyStepInputs(options.accumulate * batch, sequence, dropout));
}

/// The plan by which a run computes the loss of held-out tokens: by one rank, with whole parameters.
runtime::Plan Estimator::evaluationPlan(int64_t batch) const {
  FunctionOptions function = functionOptions(options, device, {"tokens", "targets"}, {"loss"}, {});
  const Array tokens({batch, sequence}, DType::i32), targets({batch, sequence}, DType::i32);
  return evaluationFunction(model, std::move(function)).plan(std::array{tokens, targets});
}

/// Ranks that compute alike many lanes in alike trees have alike plans, but for a row of each state that they keep. Of
/// such ranks the first has the largest of the updates with owners, and the last has most rows.
StepFigures Estimator::figures(int64_t batch, int zero) {
  const int64_t ranks = std::max<int64_t>(options.ranks, 1);
  std::map<int64_t, int64_t> lastAlike; // by the first
  for (int64_t rank = 0; rank < ranks; ++rank)
    lastAlike[firstAlike(options.lanes.value_or(1), ranks, rank)] = rank;
  std::optional<StepFigures> most;
  const std::optional<runtime::Plan> evaluation =
      options.evalEvery > 0 ? std::optional(evaluationPlan(batch)) : std::nullopt;
  const auto take = [&](int64_t rank) {
    const runtime::Plan step = plan(batch, zero, rank);
    StepFigures own = figuresOf(step);
    if (evaluation)
      own.evaluating = bytesWhileEvaluating(step, *evaluation);
    if (!most || own.needed() > most->needed())
      most = std::move(own);
  };
  for (const auto &[first, last] : lastAlike) {
    take(first);
    if (zero > 0 && last != first)
      take(last);
  }
  return std::move(*most);
}

int64_t Estimator::largestBatch(int64_t rows, int64_t bytes, int64_t limit) {
  const int64_t unit = options.lanes.value_or(1);
  int64_t batch = rows / unit;
  int64_t fits = 0, fails = std::numeric_limits<int32_t>::max() / (options.accumulate * sequence * unit) + 1;
  int64_t lastBatch = 0, lastBytes = 0;
  for (;;) {
    (bytes <= limit ? fits : fails) = batch;
    if (fits + 1 == fails)
      return fits * unit;
    const double slope = lastBatch == 0 ? 0 : double(bytes - lastBytes) / double(batch - lastBatch);
    double guess = bytes <= limit ? double(batch) * 2 : double(batch) / 2;
    if (slope > 0)
      guess = double(batch) + (double(limit) - double(bytes)) / slope;
    lastBatch = batch;
    lastBytes = bytes;
    batch = int64_t(std::clamp(guess, double(fits + 1), double(fails - 1)));
    bytes = figures(batch * unit).needed();
  }
}

StepFigures Estimator::figuresOf(const runtime::Plan &plan) const {
  StepFigures figures{.planned = plan.plannedBytes(), .arena = runtime::arenaParts(plan)};
  figures.others = figures.planned - plan.arenaBytes;
  const auto isOneOf = [](const std::vector<State> &states, const std::string &name) {
    return std::ranges::any_of(states, [&](const State &state) { return state.name() == name; });
  };
  for (const runtime::TensorSpec &state : plan.states) {
    if (!model.has(state.name) && !isOneOf(optimizer->states(), state.name))
      continue; // the states of loss scaling stay among the others
    const bool trained = isOneOf(model.trained(), state.name);
    (trained ? figures.weights : model.has(state.name) ? figures.frozen : figures.moments) += state.bytes();
    figures.others -= state.bytes();
  }
  std::vector<std::pair<size_t, double>> loops{{plan.instructions.size(), 1.0}}; // where each ends, and its turns
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const runtime::Instruction &instruction = plan.instructions[i];
    while (loops.back().first == i)
      loops.pop_back();
    const double turns = loops.back().second;
    if (const auto *loop = std::get_if<runtime::LoopCall>(&instruction.call); loop && loop->body > 0)
      loops.emplace_back(i + 1 + loop->body, turns * double(loop->count));
    if (const auto *exchange = std::get_if<runtime::CollectiveCall>(&instruction.call))
      figures.sent += int64_t(turns) * exchange->sentBytes(plan.lists());
    const bool product = runtime::wordsOf(instruction).part == runtime::StepPart::products;
    figures.hasUnknownProducts |= product && limits.product(runtime::multiplied(instruction)) == 0;
    (product ? figures.productSeconds : figures.kernelSeconds) += turns * limits.boundOf(instruction).seconds;
  }
  figures.events = eventsOf(plan, limits);
  return figures;
}

} // namespace tcc::models
