// What every optimizer does: norm, clipping, the condition of an update.
#include "frontend/optim.h"
#include "frontend/scope.h"

namespace tcc::optim {

Tensor globalNorm(std::span<const Tensor> gradients, Loc loc) {
  const Scope scope("gradient_norm");
  Tensor total;
  for (const Tensor &gradient : gradients) {
    const Tensor wide = cast(gradient, DType::f32, loc);
    const Tensor squares = sum(wide * Operand(wide, loc), {}, KeepDims::no, loc);
    total = total.defined() ? total + Operand(squares, loc) : squares;
  }
  return total.defined() ? sqrt(total, loc) : zeros({}, DType::f32, loc);
}

Optimizer::Optimizer(std::vector<Parameter> parameters, double clip) : params(std::move(parameters)), clip(clip) {}

State Optimizer::addState(const Parameter &parameter, const char *suffix, const Shape &shape) {
  all.emplace_back(parameter.name() + "." + suffix, shape);
  return all.back();
}

void Optimizer::Moment::assign(const State &state, const Tensor &next) const {
  tcc::assign(state, select(applied, next, Operand(state, loc)), loc);
}

StepResult Optimizer::step(const Tensor &loss, std::span<const Tensor> gradients, const Tensor &lr, const Tensor &step,
                           Loc loc) {
  if (gradients.size() != params.size())
    throw Error(std::to_string(gradients.size()) + " gradients for " + std::to_string(params.size()) +
                    " parameters; each parameter needs its own",
                loc.file_name(), loc.line(), loc.column());
  const Tensor norm = globalNorm(gradients, loc);
  const auto [applied, scale] = [&] {
    const Scope scope("clip");
    const Tensor finite = logicalAnd(isFinite(loss, loc), isFinite(norm, loc), loc);
    if (clip == 0)
      return std::pair(finite, ones({}, DType::f32, loc));
    const Tensor limit = full(clip, {}, DType::f32, loc); // as torch.nn.utils.clip_grad_norm_
    return std::pair(finite, minimum(limit / Operand(norm + Operand(1e-6, loc), loc), Operand(1.0, loc)));
  }();
  const Moment moment{lr, step, scale, applied, loc};
  for (size_t i = 0; i < params.size(); ++i) {
    const Scope parameter(params[i].name());
    update(i, gradients[i], moment);
  }
  return {norm, applied};
}

} // namespace tcc::optim
