// AdamW (Loshchilov and Hutter 2019).
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
  const bool decays = settings.decays ? settings.decays(parameter) : parameter.shape().rank() >= 2;
  moment.adamw(parameter, gradient, m[index], v[index],
               {.beta1 = settings.beta1,
                .beta2 = settings.beta2,
                .eps = settings.eps,
                .weightDecay = decays ? settings.weightDecay : 0});
}

} // namespace tcc::optim
