// Estimator: finds what a training step needs, by planning it for several batch sizes.
#pragma once
#include "frontend/optim.h"
#include "models/checkpoint.h"
#include "models/model.h"
#include "models/options.h"
#include "models/run_device.h"
#include "models/step_events.h"
#include "runtime/memory_parts.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace tcc::models {

/// A step's plan in figures: bytes, and seconds at the device's limits.
struct StepFigures {
  int64_t planned = 0;
  // Bytes outside the arena; `others` are inputs, outputs, constants and the states of loss scaling.
  int64_t weights = 0, frozen = 0, moments = 0, others = 0;
  runtime::ArenaParts arena;
  double productSeconds = 0, kernelSeconds = 0;
  int64_t sent = 0; // bytes that a rank sends to others
  bool hasUnknownProducts =
      false;              // whether it has matmuls of a type whose rate was not measured; then times mean nothing
  StepEvents events = {}; // where ranks exchange
  int64_t evaluating = 0; // bytes while the run evaluates; 0 where it does not

  /// The bytes that the run needs at most.
  int64_t needed() const { return std::max(planned, evaluating); }
};

/// The model, optimizer and limits, made once; plans a step for each batch size asked about.
class Estimator {
public:
  Estimator(const TrainOptions &options, const RunDevice &device, const std::optional<ModelFolder> &folder);

  /// The plan of the first rank.
  runtime::Plan plan(int64_t batch) { return plan(batch, options.zero, 0); }
  /// The figures of the rank that needs most memory, with options.zero or with another stage of --zero.
  StepFigures figures(int64_t batch) { return figures(batch, options.zero); }
  StepFigures figures(int64_t batch, int zero);

  /// The largest number of rows whose step needs at most `limit` bytes; 0 if not even one row fits. The search begins
  /// with a known point: `batch` rows need `bytes`. A step's bytes are nearly linear in the rows, so each guess lies
  /// where the line through the last two points meets the limit. More tokens than an int32 counts are taken not to fit.
  /// The result is a multiple of the number of lanes.
  int64_t largestBatch(int64_t rows, int64_t bytes, int64_t limit);

  const TrainOptions options; // without the memory limit, which plans are only compared with
  const RunDevice &device;
  const ModelConfig config;
  const int64_t sequence;
  Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  const runtime::MachineLimits limits;

private:
  runtime::Plan plan(int64_t batch, int zero, int64_t rank);
  runtime::Plan evaluationPlan(int64_t batch) const;
  StepFigures figuresOf(const runtime::Plan &plan) const;
};

} // namespace tcc::models
