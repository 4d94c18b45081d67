// Muon (Jordan et al. 2024) for matrices, AdamW for the rest.
#include "frontend/optim.h"
#include "frontend/scope.h"

#include <algorithm>
#include <cmath>

namespace tcc::optim {

namespace {

bool isHiddenMatrix(const Parameter &parameter) {
  const std::string &name = parameter.name();
  return parameter.shape().rank() == 2 &&
         std::ranges::none_of(std::initializer_list<const char *>{"wte", "wpe", "embed", "lm_head"},
                              [&](const char *part) { return name.find(part) != std::string::npos; });
}

} // namespace

Muon::Muon(std::vector<Parameter> parameters, MuonSettings settings)
    : Optimizer(std::move(parameters), settings.rest.clip), settings(std::move(settings)) {
  if (!this->settings.matrices)
    this->settings.matrices = isHiddenMatrix;
  for (const Parameter &parameter : this->parameters()) {
    m.push_back(addState(parameter, "m"));
    v.push_back(this->settings.matrices(parameter) ? State() : addState(parameter, "v"));
  }
}

/// Five steps of a quintic iteration bring every singular value near to 1 (between about 0.7 and 1.2).
Tensor Muon::orthogonal(const Tensor &matrix, Loc loc) const {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315; // Jordan's coefficients
  const bool tall = matrix.dim(0) > matrix.dim(1);
  Tensor x = tall ? transpose(matrix, loc) : matrix;
  x = x / (sqrt(sum(x * x)) + 1e-7);
  for (int i = 0; i < settings.iterations; ++i) {
    const Tensor square = matmul(x, x, {.transposeB = true}, loc);
    x = x * a + matmul(square * b + matmul(square, square, loc) * c, x, loc);
  }
  return tall ? transpose(x, loc) : x;
}

void Muon::update(size_t index, const Tensor &gradient, const Moment &moment) {
  const Parameter &parameter = parameters()[index];
  const AdamwSettings &rest = settings.rest;
  const bool decays = rest.decays ? rest.decays(parameter) : parameter.shape().rank() >= 2;
  const double decay = decays ? rest.weightDecay : 0;
  if (v[index]) {
    moment.adamw(parameter, gradient, m[index], v[index],
                 {.beta1 = rest.beta1, .beta2 = rest.beta2, .eps = rest.eps, .weightDecay = decay});
    return;
  }
  const Scope scope("muon");
  const Tensor slope = gradient * moment.scale;
  const Tensor average = inF32(m[index]) * settings.momentum + slope * (1 - settings.momentum);
  const Tensor ahead = slope * (1 - settings.momentum) + average * settings.momentum;
  const auto side = double(std::max(parameter.shape()[0], parameter.shape()[1]));
  const Tensor change = orthogonal(ahead, moment.loc) * (moment.lr * (0.2 * std::sqrt(side)));
  moment.assign(m[index], average);
  const Tensor old = inF32(parameter);
  moment.assign(parameter, old - change - old * (moment.lr * decay));
}

} // namespace tcc::optim
