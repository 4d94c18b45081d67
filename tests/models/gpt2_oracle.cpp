#include "gpt2_oracle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tcc::models {

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>; // one a position

struct Oracle {
  const Gpt2Config &config;
  const OracleWeights &weights;

  const std::vector<double> &at(const std::string &name) const { return weights.at(name); }

  Row norm(const Row &x, const std::string &name) const {
    const double n = double(x.size());
    double mean = 0, variance = 0;
    for (double value : x)
      mean += value / n;
    for (double value : x)
      variance += (value - mean) * (value - mean) / n;
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = (x[i] - mean) / std::sqrt(variance + config.layerNormEpsilon) * at(name + ".weight")[i] +
             at(name + ".bias")[i];
    return y;
  }

  Row linear(const Row &x, const std::string &name) const {
    Row y = at(name + ".bias");
    const std::vector<double> &weight = at(name + ".weight"); // [in, out]
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t o = 0; o < y.size(); ++o)
        y[o] += x[i] * weight[i * y.size() + o];
    return y;
  }

  /// What each head mixes for position t, from the rows of q, k, v of all positions.
  Row attend(const Rows &qkv, size_t t) const {
    const size_t width = size_t(config.width), size = width / size_t(config.heads);
    Row y(width, 0.0);
    for (size_t head = 0; head < width; head += size) {
      Row share(t + 1);
      double sum = 0;
      for (size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (size_t i = 0; i < size; ++i)
          score += qkv[t][head + i] * qkv[s][width + head + i];
        sum += share[s] = std::exp(score / std::sqrt(double(size)));
      }
      for (size_t s = 0; s <= t; ++s)
        for (size_t i = 0; i < size; ++i)
          y[head + i] += share[s] / sum * qkv[s][2 * width + head + i];
    }
    return y;
  }

  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  void block(Rows &x, const std::string &name) const {
    Rows qkv;
    for (const Row &row : x)
      qkv.push_back(linear(norm(row, name + "ln_1"), name + "attn.c_attn"));
    for (size_t t = 0; t < x.size(); ++t)
      add(x[t], linear(attend(qkv, t), name + "attn.c_proj"));
    for (Row &row : x) {
      Row inner = linear(norm(row, name + "ln_2"), name + "mlp.c_fc");
      std::transform(inner.begin(), inner.end(), inner.begin(), gelu);
      add(row, linear(inner, name + "mlp.c_proj"));
    }
  }

  static void add(Row &x, const Row &y) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] += y[i];
  }

  /// -log softmax(x · wteᵀ)[target].
  double tokenLoss(const Row &x, int32_t target) const {
    const size_t width = x.size();
    double sum = 0, chosen = 0;
    for (int32_t token = 0; token < config.vocab; ++token) {
      double logit = 0;
      for (size_t i = 0; i < width; ++i)
        logit += x[i] * at("wte.weight")[size_t(token) * width + i];
      sum += std::exp(logit);
      if (token == target)
        chosen = logit;
    }
    return std::log(sum) - chosen;
  }
};

} // namespace

double gpt2OracleLoss(const Gpt2Config &config, const OracleWeights &weights, const std::vector<int32_t> &tokens,
                      const std::vector<int32_t> &targets, int64_t sequence) {
  const Oracle oracle{config, weights};
  const size_t width = size_t(config.width), length = size_t(sequence);
  double loss = 0;
  for (size_t first = 0; first < tokens.size(); first += length) {
    Rows x(length, Row(width));
    for (size_t t = 0; t < length; ++t)
      for (size_t i = 0; i < width; ++i)
        x[t][i] =
            oracle.at("wte.weight")[size_t(tokens[first + t]) * width + i] + oracle.at("wpe.weight")[t * width + i];
    for (int64_t layer = 0; layer < config.layers; ++layer)
      oracle.block(x, "h." + std::to_string(layer) + ".");
    for (size_t t = 0; t < length; ++t)
      loss += oracle.tokenLoss(oracle.norm(x[t], "ln_f"), targets[first + t]) / double(tokens.size());
  }
  return loss;
}

} // namespace tcc::models
