// Adafactor (Shazeer and Stern 2018, algorithm 4), with torch.optim.Adafactor's choices.
#include "frontend/optim.h"
#include "frontend/scope.h"

namespace tcc::optim {

namespace {

Tensor rootMeanSquare(const Tensor &x) {
  return sqrt(mean(x * x));
}

} // namespace

Adafactor::Adafactor(std::vector<Parameter> parameters, AdafactorSettings settings)
    : Optimizer(std::move(parameters), settings.clip), settings(std::move(settings)) {
  for (const Parameter &parameter : this->parameters()) {
    const Shape &shape = parameter.shape();
    const bool matrix = shape.rank() == 2;
    first.push_back(matrix ? addState(parameter, "row", {shape[0], 1}) : addState(parameter, "v"));
    second.push_back(matrix ? addState(parameter, "column", {1, shape[1]}) : State());
  }
}

Tensor Adafactor::secondMoment(size_t index, const Tensor &gradient, const Moment &moment) {
  const Tensor share = exp(log(moment.step) * settings.decayExponent); // of the new squares
  const auto mixed = [&](const State &state, const Tensor &squares) {
    const Tensor old = inF32(state), next = old + (squares - old) * share;
    moment.assign(state, next);
    return next;
  };
  const Tensor squares = gradient * gradient;
  if (!second[index])
    return mixed(first[index], squares);
  const Tensor row = mixed(first[index], mean(squares, 1, KeepDims::yes));
  const Tensor column = mixed(second[index], mean(squares, 0, KeepDims::yes));
  return row * column / maximum(mean(row), settings.smallestGradient);
}

void Adafactor::update(size_t index, const Tensor &gradient, const Moment &moment) {
  const Scope scope("adafactor");
  const Parameter &parameter = parameters()[index];
  const bool decays = settings.decays ? settings.decays(parameter) : parameter.shape().rank() >= 2;
  const Tensor slope = gradient * moment.scale;
  const double smallest = settings.smallestGradient * settings.smallestGradient;
  const Tensor direction = slope * rsqrt(maximum(secondMoment(index, slope, moment), smallest));
  const Tensor relative = minimum(moment.lr, rsqrt(moment.step));
  Tensor kept = inF32(parameter);
  const Tensor size = relative * maximum(rootMeanSquare(kept), settings.smallestRms);
  const Tensor limited = size / maximum(rootMeanSquare(direction) * (1 / settings.threshold), 1.0);
  if (decays && settings.weightDecay > 0)
    kept = kept - kept * (moment.lr * settings.weightDecay);
  moment.assign(parameter, kept - direction * limited);
}

} // namespace tcc::optim
