// Stochastic gradient descent with momentum, as torch.optim.SGD.
#include "frontend/optim.h"
#include "frontend/scope.h"

namespace tcc::optim {

Sgd::Sgd(std::vector<Parameter> parameters, SgdSettings settings)
    : Optimizer(std::move(parameters), settings.clip), settings(std::move(settings)) {
  for (const Parameter &parameter : this->parameters())
    m.push_back(addState(parameter, "m"));
}

void Sgd::update(size_t index, const Tensor &gradient, const Moment &moment) {
  const Scope scope("sgd");
  const Parameter &parameter = parameters()[index];
  const bool decays = settings.decays ? settings.decays(parameter) : parameter.shape().rank() >= 2;
  const Tensor old = inF32(parameter);
  Tensor slope = gradient * moment.scale;
  if (decays && settings.weightDecay > 0)
    slope = slope + old * settings.weightDecay;
  const Tensor next = inF32(m[index]) * settings.momentum + slope;
  moment.assign(m[index], next);
  moment.assign(parameter, old - next * moment.lr);
}

} // namespace tcc::optim
