// AdamW with gradient clipping as part of the traced step.
#pragma once
#include "frontend/tensor.h"
#include <functional>

namespace tcc::optim {

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weightDecay = 0.1;
  double clip = 1.0; ///< largest global gradient norm; 0: no clipping
  /// Which parameters decay; by default those of rank 2 and more.
  std::function<bool(const Parameter &)> decays = {};
};

/// The global norm of the gradients, an f32 scalar: sqrt of the sum over all of the sums of squares, in f32.
Tensor globalNorm(std::span<const Tensor> gradients, Loc loc = Loc::current());

struct StepResult {
  Tensor norm;    ///< before clipping
  Tensor applied; ///< i1: whether loss and norm were finite and the update took place
};

/// Parameters and their two moments, f32 States named "<parameter>.m" and "<parameter>.v".
class Adamw {
public:
  explicit Adamw(std::vector<Parameter> parameters, AdamwSettings settings = {});

  /// Records the update of all parameters and moments: gradients are scaled by min(1, clip / (norm + 1e-6)); lr and
  /// step (from 1) are f32 scalars and must be inputs of the function. Where the loss or the norm is not finite, every
  /// parameter and moment keeps its bits.
  StepResult step(const Tensor &loss, std::span<const Tensor> gradients, const Tensor &lr, const Tensor &step,
                  Loc loc = Loc::current());

  const std::vector<Parameter> &parameters() const { return params; }
  const std::vector<State> &firstMoments() const { return m; }
  const std::vector<State> &secondMoments() const { return v; }
  /// All that lives from step to step beside the parameters, for checkpoints.
  std::vector<State> states() const;

private:
  std::vector<Parameter> params;
  std::vector<State> m, v;
  AdamwSettings settings;
};

} // namespace tcc::optim
