// What every optimizer does: clipping, the condition of an update.
#include "frontend/optim.h"
#include "frontend/scope.h"
#include "runtime/mix_bits.h"

#include <algorithm>

namespace tcc::optim {

Tensor inF32(const State &state, Loc loc) {
  return cast(Tensor(state, loc), DType::f32, loc);
}

/// The seed of one parameter's roundings. A stream of its own would be part of the kernel that updates it (codegen/
/// README.md), and each parameter's would be compiled: so what differs is data, a literal of two values, which is not
/// taken into kernels. The values are mixed, since the seed counts steps: sums of neighbours would meet.
static Tensor seedOf(size_t index, const Tensor &seed, Loc loc) {
  const uint64_t mixed = runtime::mixBits(index * runtime::splitMixStep) >> 12; // 52 bits, which a double has
  const double values[] = {double(mixed), 0};
  return seed + Operand(reshape(slice(literal(values, {2}, DType::i64, loc), 0, 0, 1, loc), {}, loc), loc);
}

Optimizer::Optimizer(std::vector<Parameter> parameters, double clip) : params(std::move(parameters)), clip(clip) {}

State Optimizer::addState(const Parameter &parameter, const char *suffix, const Shape &shape) {
  all.emplace_back(parameter.name() + "." + suffix, shape, parameter.dtype());
  return all.back();
}

void Optimizer::Moment::assign(const State &state, const Tensor &next) const {
  const Tensor stored = state.dtype() == DType::bf16 ? stochasticCast(next, roundingSeed, nextStream++, loc)
                                                     : cast(next, state.dtype(), loc);
  tcc::assign(state, select(applied, stored, Operand(state, loc)), loc);
}

// The dialect has AdamW as one op, which keeps old values itself.
void Optimizer::Moment::adamw(const State &parameter, const Tensor &gradient, const State &m, const State &v,
                              const AdamwOptions &options) const {
  const AdamwResult next =
      tcc::adamw(inF32(parameter, loc), gradient, inF32(m, loc), inF32(v, loc), lr, step, scale, applied, options, loc);
  const auto store = [&](const State &state, const Tensor &value) {
    if (state.dtype() == DType::f32)
      tcc::assign(state, value, loc);
    else
      assign(state, value);
  };
  store(parameter, next.parameter);
  store(m, next.m);
  store(v, next.v);
}

StepResult Optimizer::step(const Tensor &loss, std::span<const Tensor> gradients, const Tensor &lr, const Tensor &step,
                           Loc loc) {
  if (gradients.size() != params.size())
    throw Error(std::to_string(gradients.size()) + " gradients for " + std::to_string(params.size()) +
                    " parameters; each parameter needs its own",
                loc);
  const Tensor norm = globalNorm(gradients, loc, normOrder);
  const auto [applied, scale] = [&] {
    const Scope scope("clip");
    const Tensor finite = logicalAnd(isFinite(loss, loc), isFinite(norm, loc), loc);
    if (clip == 0)
      return std::pair(finite, ones({}, DType::f32, loc));
    const Tensor limit = full(clip, {}, DType::f32, loc); // as torch.nn.utils.clip_grad_norm_
    return std::pair(finite, minimum(limit / Operand(norm + Operand(1e-6, loc), loc), Operand(1.0, loc)));
  }();
  Moment moment{lr, step, scale, applied, loc};
  if (std::ranges::any_of(params, [](const Parameter &parameter) { return parameter.dtype() == DType::bf16; }))
    moment.roundingSeed = cast(step, DType::i64, loc) + Operand(double(roundingSeed) * 0x1p32, loc);
  for (size_t i = 0; i < params.size(); ++i) {
    const Scope parameter(params[i].name());
    Moment own = moment;
    if (params[i].dtype() == DType::bf16)
      own.roundingSeed = seedOf(i, moment.roundingSeed, loc);
    update(i, cast(gradients[i], DType::f32, loc), own);
  }
  return {norm, applied};
}

} // namespace tcc::optim
