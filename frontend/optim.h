// Optimizers as parts of the traced step: gradient clipping and the update of parameters and states.
#pragma once
#include "frontend/tensor.h"
#include <functional>
#include <string>
#include <vector>

namespace tcc::optim {

/// How a norm is added up: in few kernels, or row by row, so that ranks with parts of the gradients can divide the work
/// (FunctionOptions::zero, 2). Each order has bits of its own.
enum class NormOrder { parts, rows };

/// The global norm of the gradients, an f32 scalar: the square root of the sum of all their squares, computed in f32.
Tensor globalNorm(std::span<const Tensor> gradients, Loc loc = Loc::current(), NormOrder order = NormOrder::parts);

struct StepResult {
  Tensor norm;    ///< before clipping
  Tensor applied; ///< i1: whether loss and norm were finite and the update took place
};

/// Says for which parameters something is done; by default for those of rank 2 and more.
using Choice = std::function<bool(const Parameter &)>;

/// A state's value before the call, in f32: what updates compute with.
Tensor inF32(const State &state, Loc loc = Loc::current());

/// What every optimizer has in common. The states of a bf16 parameter are bf16 too: updates are computed in f32 and
/// rounded at random (stochasticCast), so that small ones are not lost. A user's own optimizer derives from this class,
/// makes its states in its constructor, and says in update() how one parameter changes. This class does the clipping,
/// and keeps every bit if a step is not applied.
class Optimizer {
public:
  virtual ~Optimizer() = default;

  /// Records the update of all parameters and states: gradients are scaled by min(1, clip / (norm + 1e-6)); lr and step
  /// (from 1) are f32 scalars and must be inputs of the function. If the loss or the norm is not finite, every
  /// parameter and state keeps its bits.
  StepResult step(const Tensor &loss, std::span<const Tensor> gradients, const Tensor &lr, const Tensor &step,
                  Loc loc = Loc::current());

  const std::vector<Parameter> &parameters() const { return params; }
  /// All that lives from step to step beside the parameters, for checkpoints.
  const std::vector<State> &states() const { return all; }

  /// Sets how step() adds up the norm; parts at first. Gradients of lanes are better added up by rows.
  void setNormOrder(NormOrder order) { normOrder = order; }

  /// Sets the seed of the random rounding, which also depends on the step's number. It must be below 2^30.
  void setRoundingSeed(uint32_t seed) { roundingSeed = seed; }

protected:
  /// `clip`: largest global gradient norm; 0: no clipping.
  Optimizer(std::vector<Parameter> parameters, double clip);

  /// What an update may use, f32 scalars; `applied` is i1.
  struct Moment {
    Tensor lr, step, scale, applied;
    Loc loc;

    Tensor roundingSeed = {};       ///< i64 scalar for the parameter; undefined if that is f32
    mutable int64_t nextStream = 0; ///< of random bits: each assignment of a parameter's update has its own

    /// Assigns `next` (f32) where the step is applied; elsewhere the state keeps its bits.
    void assign(const State &state, const Tensor &next) const;
    /// One AdamW update of a parameter and its two moments.
    void adamw(const State &parameter, const Tensor &gradient, const State &m, const State &v,
               const AdamwOptions &options) const;
  };

  /// A state of zeros in the parameter's element type, named "<parameter>.<suffix>".
  State addState(const Parameter &parameter, const char *suffix, const Shape &shape);
  State addState(const Parameter &parameter, const char *suffix) {
    return addState(parameter, suffix, parameter.shape());
  }

  /// Records the next values of parameters()[index] and its states. `gradient` (f32) is not yet multiplied by
  /// moment.scale.
  virtual void update(size_t index, const Tensor &gradient, const Moment &moment) = 0;

private:
  std::vector<Parameter> params;
  std::vector<State> all;
  double clip;
  uint32_t roundingSeed = 0;
  NormOrder normOrder = NormOrder::parts;
};

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weightDecay = 0.1;
  double clip = 1.0; ///< largest global gradient norm; 0: no clipping
  Choice decays = {};
};

/// AdamW (Loshchilov and Hutter 2019) with two moments, "<parameter>.m" and "<parameter>.v".
class Adamw : public Optimizer {
public:
  explicit Adamw(std::vector<Parameter> parameters, AdamwSettings settings = {});
  const std::vector<State> &firstMoments() const { return m; }
  const std::vector<State> &secondMoments() const { return v; }

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override;
  std::vector<State> m, v;
  AdamwSettings settings;
};

struct SgdSettings {
  double momentum = 0.9;
  double weightDecay = 0; ///< added to the gradient
  double clip = 1.0;
  Choice decays = {};
};

/// Stochastic gradient descent with momentum "<parameter>.m": m = momentum · m + g, p = p - lr · m.
class Sgd : public Optimizer {
public:
  explicit Sgd(std::vector<Parameter> parameters, SgdSettings settings = {});

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override;
  std::vector<State> m;
  SgdSettings settings;
};

struct LionSettings {
  double beta1 = 0.9, beta2 = 0.99;
  double weightDecay = 0.1;
  double clip = 1.0;
  Choice decays = {};
};

/// Lion (Chen et al. 2023): steps of the sign of a mix of gradient and moment "<parameter>.m".
class Lion : public Optimizer {
public:
  explicit Lion(std::vector<Parameter> parameters, LionSettings settings = {});

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override;
  std::vector<State> m;
  LionSettings settings;
};

struct AdafactorSettings {
  double decayExponent = -0.8; ///< the second moment forgets by 1 - step^exponent
  double smallestRms = 1e-3;   ///< the least root mean square of a parameter; steps are proportional to it
  double smallestGradient = 1.1920928955078125e-07;
  double threshold = 1; ///< largest root mean square of an update
  double weightDecay = 0;
  double clip = 1.0;
  Choice decays = {};
};

/// Adafactor (Shazeer and Stern 2018) without first moment. For a matrix it keeps second moments of rows and columns
/// ("<parameter>.row", ".column"), for all other parameters "<parameter>.v". lr is the largest relative step.
class Adafactor : public Optimizer {
public:
  explicit Adafactor(std::vector<Parameter> parameters, AdafactorSettings settings = {});

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override;
  /// The second moment's estimate, clamped, [rows, columns] or the parameter's shape.
  Tensor secondMoment(size_t index, const Tensor &gradient, const Moment &moment);
  std::vector<State> first, second; ///< row and column, or v and none
  AdafactorSettings settings;
};

struct MuonSettings {
  double momentum = 0.95;
  int iterations = 5;      ///< of Newton and Schulz
  AdamwSettings rest = {}; ///< for other parameters; its weight decay and clipping hold for the matrices too
  /// Which parameters are matrices to orthogonalise; by default those of rank 2 whose name has no "wte", "wpe", "embed"
  /// or "lm_head".
  Choice matrices = {};
};

/// Muon (Jordan et al. 2024): the momentum "<parameter>.m" of a matrix (with Nesterov's look ahead) is brought near to
/// the closest orthogonal one and scaled by 0.2 · √(larger side), so that its steps are as large as AdamW's (Liu et al.
/// 2025); AdamW for the rest.
class Muon : public Optimizer {
public:
  explicit Muon(std::vector<Parameter> parameters, MuonSettings settings = {});

private:
  void update(size_t index, const Tensor &gradient, const Moment &moment) override;
  Tensor orthogonal(const Tensor &matrix, Loc loc) const;
  std::vector<State> m, v; ///< for a matrix, v is empty
  MuonSettings settings;
};

} // namespace tcc::optim
