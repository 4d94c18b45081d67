// AdamW over all parameters of a step.
#include "frontend/optim.h"

namespace tcc::optim {

Tensor globalNorm(std::span<const Tensor> gradients, Loc loc) {
  Tensor total;
  for (const Tensor &gradient : gradients) {
    const Tensor wide = cast(gradient, DType::f32, loc);
    const Tensor squares = sum(wide * Operand(wide, loc), {}, KeepDims::no, loc);
    total = total ? total + Operand(squares, loc) : squares;
  }
  return total ? sqrt(total, loc) : zeros({}, DType::f32, loc);
}

Adamw::Adamw(std::vector<Parameter> parameters, AdamwSettings settings)
    : params(std::move(parameters)), settings(std::move(settings)) {
  for (const Parameter &parameter : params) {
    m.emplace_back(parameter.name() + ".m", parameter.shape());
    v.emplace_back(parameter.name() + ".v", parameter.shape());
  }
}

std::vector<State> Adamw::states() const {
  std::vector<State> all = m;
  all.insert(all.end(), v.begin(), v.end());
  return all;
}

StepResult Adamw::step(const Tensor &loss, std::span<const Tensor> gradients, const Tensor &lr, const Tensor &step,
                       Loc loc) {
  if (gradients.size() != params.size())
    throw Error(std::to_string(gradients.size()) + " gradients for " + std::to_string(params.size()) +
                    " parameters; each parameter needs its own",
                loc.file_name(), loc.line(), loc.column());
  const Tensor norm = globalNorm(gradients, loc);
  const Tensor applied = logicalAnd(isFinite(loss, loc), isFinite(norm, loc), loc);
  Tensor scale = ones({}, DType::f32, loc);
  if (settings.clip > 0) { // as torch.nn.utils.clip_grad_norm_
    const Tensor limit = full(settings.clip, {}, DType::f32, loc);
    scale = minimum(limit / Operand(norm + Operand(1e-6, loc), loc), Operand(1.0, loc));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const bool decays = settings.decays ? settings.decays(params[i]) : params[i].shape().rank() >= 2;
    const AdamwOptions options{.beta1 = settings.beta1,
                               .beta2 = settings.beta2,
                               .eps = settings.eps,
                               .weightDecay = decays ? settings.weightDecay : 0};
    const AdamwResult next = adamw(Tensor(params[i], loc), gradients[i], Tensor(m[i], loc), Tensor(v[i], loc), lr, step,
                                   scale, applied, options, loc);
    assign(params[i], next.parameter, loc);
    assign(m[i], next.m, loc);
    assign(v[i], next.v, loc);
  }
  return {norm, applied};
}

} // namespace tcc::optim
