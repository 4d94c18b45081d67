// Activations, each by its formula in double.
#include "ir/reference/registry.h"
#include <numbers>

using namespace mlir;

namespace tcc::reference {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

const double rootTwoOverPi = std::sqrt(2 / std::numbers::pi);

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(rootTwoOverPi * (x + 0.044715 * x * x * x)));
}

double geluSlope(double x) {
  if (std::isinf(x))
    return x > 0;
  double t = std::tanh(rootTwoOverPi * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * rootTwoOverPi * (1 + 3 * 0.044715 * x * x);
}

double sigmoidSlope(double x) {
  return sigmoid(x) * sigmoid(-x);
}

double silu(double x) {
  return x * sigmoid(x);
}

double siluSlope(double x) {
  if (std::isinf(x))
    return x > 0;
  return sigmoid(x) + x * sigmoidSlope(x);
}

double softplus(double x) {
  return largerOf(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}

template <typename Op>
void addActivation(Registry &registry, double (*function)(double)) {
  add<Op>(registry, [function](Call &call, Op) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = function(call.in(0).data[i]);
  });
}

/// dy · slope(x) for operands x and dy.
template <typename Op>
void addGradient(Registry &registry, double (*slope)(double)) {
  add<Op>(registry, [slope](Call &call, Op) {
    RefTensor &result = call.addResult(call.in(0).shape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.data[i] = call.in(1).data[i] * slope(call.in(0).data[i]);
  });
}

} // namespace

void addActivations(Registry &registry) {
  addActivation<GeluOp>(registry, gelu);
  addActivation<SoftplusOp>(registry, softplus);
  addActivation<SigmoidOp>(registry, sigmoid);
  addActivation<SiluOp>(registry, silu);
  addActivation<ReluOp>(registry, [](double x) { return x <= 0 ? 0 : x; });
  addGradient<GeluGradientOp>(registry, geluSlope);
  addGradient<SigmoidGradientOp>(registry, sigmoidSlope);
  addGradient<SiluGradientOp>(registry, siluSlope);
  add<MatmulGeluGradientOp>(registry, [](Call &call, MatmulGeluGradientOp op) {
    const RefTensor &a = call.in(0), &b = call.in(1), &x = call.in(2);
    const bool transposed = op.getTransposeB();
    const int64_t rows = a.shape()[0], depth = a.shape()[1], columns = b.shape()[transposed ? 0 : 1];
    RefTensor &result = call.addResult({rows, columns});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        Sum sum(call.mode);
        for (int64_t k = 0; k < depth; ++k)
          sum.add(a.data[i * depth + k] * b.data[transposed ? j * depth + k : k * columns + j]);
        result.data[i * columns + j] = sum.get() * geluSlope(x.data[i * columns + j]);
      }
  });
}

} // namespace tcc::reference
