// AdamW: the dialect has it as one op, which keeps old values itself.
#include "frontend/optim.h"

namespace tcc::optim {

Adamw::Adamw(std::vector<Parameter> parameters, AdamwSettings settings)
    : Optimizer(std::move(parameters), settings.clip), settings(std::move(settings)) {
  for (const Parameter &parameter : this->parameters())
    m.push_back(addState(parameter, "m"));
  for (const Parameter &parameter : this->parameters())
    v.push_back(addState(parameter, "v"));
}

void Adamw::update(size_t index, const Tensor &gradient, const Moment &moment) {
  const Parameter &parameter = parameters()[index];
  const Loc loc = moment.loc;
  const bool decays = settings.decays ? settings.decays(parameter) : parameter.shape().rank() >= 2;
  const AdamwOptions options{.beta1 = settings.beta1,
                             .beta2 = settings.beta2,
                             .eps = settings.eps,
                             .weightDecay = decays ? settings.weightDecay : 0};
  const AdamwResult next = adamw(Tensor(parameter, loc), gradient, Tensor(m[index], loc), Tensor(v[index], loc),
                                 moment.lr, moment.step, moment.scale, moment.applied, options, loc);
  assign(parameter, next.parameter, loc);
  assign(m[index], next.m, loc);
  assign(v[index], next.v, loc);
}

} // namespace tcc::optim
