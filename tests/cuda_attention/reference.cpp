// Row by row: scores, softmax, dropout, output; then the chain rule backwards over the same row.
#include "reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace tcc::attention_test {

namespace {

/// Philox4x32-10 after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t first = std::uint64_t(0xD2511F53u) * counter[0];
    std::uint64_t second = std::uint64_t(0xCD9E8D57u) * counter[2];
    counter = {std::uint32_t(second >> 32) ^ counter[1] ^ key[0], std::uint32_t(second),
               std::uint32_t(first >> 32) ^ counter[3] ^ key[1], std::uint32_t(first)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

bool keeps(const Problem &problem, int batchHead, int query, int key) {
  auto words = philox({std::uint32_t(batchHead), std::uint32_t(query & ~8), std::uint32_t(key & ~8), problem.seed[1]},
                      {problem.seed[0], problem.stream});
  return words[2 * (query >> 3 & 1) + (key >> 3 & 1)] >= dropThreshold(problem.dropout);
}

/// Rounds what an unfused program would store; the oracle stores doubles.
struct Rounding {
  bool active;
  Element element;
  double operator()(double value) const {
    return active ? valueOfElement(roundToElement(float(value), element), element) : value;
  }
  double sum(double value) const { return active ? double(float(value)) : value; }
};

} // namespace

std::uint16_t roundToElement(float value, Element element) {
  if (element == Element::F16)
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value))
    return std::uint16_t(bits >> 16 | 0x40);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float valueOfElement(std::uint16_t bits, Element element) {
  if (element == Element::F16)
    return float(std::bit_cast<_Float16>(bits));
  return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

Problem::Strides Problem::biasStrides() const {
  switch (bias) {
  case Bias::None:
    break;
  case Bias::Each:
    return {static_cast<long long>(heads) * queries * keys, static_cast<long long>(queries) * keys, keys};
  case Bias::Pairs:
    return {0, 0, keys};
  case Bias::Keys:
    return {keys, 0, 0};
  }
  return {0, 0, 0};
}

/// The numbers of a bias: see randomInputs().
static std::vector<float> randomBias(const Problem &problem, std::mt19937 &generator) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (problem.bias == Bias::None)
    return {};
  std::normal_distribution<float> normal;
  const bool ofKeys = problem.bias == Bias::Keys;
  const int rows = problem.bias == Bias::Each ? problem.batch * problem.heads * problem.queries
                                              : (ofKeys ? problem.batch : problem.queries);
  std::vector<float> bias(std::size_t(rows) * problem.keys);
  for (int row = 0; row < rows; ++row)
    for (int key = 0; key < problem.keys; ++key) {
      const unsigned kind = generator() % 8;
      float &value = bias[std::size_t(row) * problem.keys + key];
      value = kind < 2 ? -infinity : kind == 2 ? std::numeric_limits<float>::lowest() : normal(generator);
      if (key % 8 == 0) // what a row sees is not the lowest number alone
        value = 0.5f;
      if (rows > 4 && !ofKeys && (row == 3 || row == rows - 1))
        value = -infinity;
    }
  return bias;
}

std::uint32_t dropThreshold(double probability) {
  return std::uint32_t(std::min(probability * 4294967296.0, 4294967295.0));
}

Inputs randomInputs(const Problem &problem, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  auto draw = [&](std::size_t count) {
    std::vector<double> values(count);
    for (double &value : values)
      value = valueOfElement(roundToElement(normal(generator), problem.element), problem.element);
    return values;
  };
  std::size_t own = std::size_t(problem.batch) * problem.heads * problem.queries * problem.headDim;
  std::size_t other = std::size_t(problem.batch) * problem.keyHeads() * problem.keys * problem.headDim;
  Inputs inputs{draw(own), draw(other), draw(other), draw(own), {}};
  inputs.bias = randomBias(problem, generator);
  return inputs;
}

Results attentionReference(const Problem &problem, const Inputs &inputs, bool rounded) {
  const int d = problem.headDim;
  const int keys = problem.keys;
  Rounding stored{rounded, problem.element};
  Results results;
  results.output.assign(inputs.query.size(), 0);
  results.queryGradient.assign(inputs.query.size(), 0);
  results.keyGradient.assign(inputs.key.size(), 0);
  results.valueGradient.assign(inputs.key.size(), 0);
  results.logSumExp.assign(std::size_t(problem.batch) * problem.heads * problem.queries, 0);
  double keepScale = problem.dropout < 1 ? 1 / (1 - problem.dropout) : 0;

  std::vector<double> scores(keys), probabilities(keys), gradients(keys);
  std::vector<char> kept(keys);
  for (int batch = 0; batch < problem.batch; ++batch)
    for (int head = 0; head < problem.heads; ++head) {
      int batchHead = batch * problem.heads + head;
      std::size_t keyBase = std::size_t(batch * problem.keyHeads() + head / problem.group) * keys * d;
      for (int query = 0; query < problem.queries; ++query) {
        std::size_t row = std::size_t(batchHead) * problem.queries + query;
        const double *q = &inputs.query[row * d];
        const double *gradient = &inputs.outputGradient[row * d];
        int visible = problem.causal ? std::clamp(query + problem.diagonal + 1, 0, keys) : keys;
        int first = problem.window ? std::clamp(query + problem.diagonal + 1 - problem.window, 0, visible) : 0;
        double highest = -std::numeric_limits<double>::infinity();
        for (int key = first; key < visible; ++key) {
          double score = 0;
          for (int i = 0; i < d; ++i)
            score = stored.sum(score + q[i] * inputs.key[keyBase + std::size_t(key) * d + i]);
          scores[key] = stored(score * problem.scale);
          if (problem.bias != Bias::None) {
            const auto [ofBatch, ofHead, ofQuery] = problem.biasStrides();
            scores[key] = stored(scores[key] + inputs.bias[batch * ofBatch + head * ofHead + query * ofQuery + key]);
          }
          highest = std::max(highest, scores[key]);
        }
        if (std::isinf(highest)) // no key is seen
          visible = first;
        double sum = 0;
        for (int key = first; key < visible; ++key)
          sum = stored.sum(sum + std::exp(scores[key] - highest));
        results.logSumExp[row] = visible > first ? highest + std::log(sum) : -std::numeric_limits<double>::infinity();
        for (int key = first; key < visible; ++key) {
          probabilities[key] = stored(std::exp(scores[key] - highest) / sum);
          kept[key] = problem.dropout == 0 || keeps(problem, batchHead + problem.first * problem.heads, query, key);
        }

        double *output = &results.output[row * d];
        for (int i = 0; i < d; ++i) {
          double value = 0;
          for (int key = first; key < visible; ++key)
            if (kept[key])
              value = stored.sum(value + stored(probabilities[key] * keepScale) *
                                             inputs.value[keyBase + std::size_t(key) * d + i]);
          output[i] = stored(value);
        }

        double delta = 0;
        for (int key = first; key < visible; ++key) {
          double product = 0;
          for (int i = 0; i < d; ++i)
            product = stored.sum(product + gradient[i] * inputs.value[keyBase + std::size_t(key) * d + i]);
          gradients[key] = kept[key] ? stored(stored(product) * keepScale) : 0;
          delta = stored.sum(delta + gradients[key] * probabilities[key]);
        }
        if (rounded) {
          delta = 0;
          for (int i = 0; i < d; ++i)
            delta = stored.sum(delta + output[i] * gradient[i]);
        }
        for (int key = first; key < visible; ++key) {
          double scoreGradient = stored(probabilities[key] * (gradients[key] - delta)) * problem.scale;
          double uncancelled = probabilities[key] * (std::abs(gradients[key]) + std::abs(delta)) * problem.scale;
          double dropped = kept[key] ? stored(probabilities[key] * keepScale) : 0;
          for (int i = 0; i < d; ++i) {
            std::size_t at = keyBase + std::size_t(key) * d + i;
            results.largestTerm =
                std::max(results.largestTerm, uncancelled * std::max(std::abs(q[i]), std::abs(inputs.key[at])));
            results.queryGradient[row * d + i] =
                stored.sum(results.queryGradient[row * d + i] + scoreGradient * inputs.key[at]);
            results.keyGradient[at] = stored.sum(results.keyGradient[at] + scoreGradient * q[i]);
            results.valueGradient[at] = stored.sum(results.valueGradient[at] + dropped * gradient[i]);
          }
        }
      }
    }
  for (auto *tensor : {&results.queryGradient, &results.keyGradient, &results.valueGradient})
    for (double &value : *tensor)
      value = stored(value);
  return results;
}

} // namespace tcc::attention_test
