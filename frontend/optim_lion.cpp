// Lion (Chen et al. 2023, algorithm 2).
#include "frontend/optim.h"
#include "frontend/scope.h"

namespace tcc::optim {

Lion::Lion(std::vector<Parameter> parameters, LionSettings settings)
    : Optimizer(std::move(parameters), settings.clip), settings(std::move(settings)) {
  for (const Parameter &parameter : this->parameters())
    m.push_back(addState(parameter, "m"));
}

void Lion::update(size_t index, const Tensor &gradient, const Moment &moment) {
  const Scope scope("lion");
  const Parameter &parameter = parameters()[index];
  const bool decays = settings.decays ? settings.decays(parameter) : parameter.shape().rank() >= 2;
  const Tensor slope = gradient * moment.scale, old = inF32(m[index]), weight = inF32(parameter);
  const Tensor mix = old * settings.beta1 + slope * (1 - settings.beta1);
  const Tensor zero = zeros(mix.shape());
  const Tensor sign = select(greater(mix, zero), ones(mix.shape()), select(less(mix, zero), zero - 1.0, zero));
  Tensor next = weight - sign * moment.lr;
  if (decays && settings.weightDecay > 0)
    next = next - weight * (moment.lr * settings.weightDecay);
  moment.assign(parameter, next);
  moment.assign(m[index], old * settings.beta2 + slope * (1 - settings.beta2));
}

} // namespace tcc::optim
