// The GPT of the speed runs: norms without weights, rotary embeddings, norms of each head's query and key, ReLU² (So et
// al. 2021); its head softcaps the logits. The formulas stand in README.md.
#include "models/model.h"

#include <cmath>

namespace tcc::models {

namespace {

/// x / sqrt(mean(x²) + 1e-6) over the last dim.
Tensor normed(const Tensor &x) {
  const Scope scope("norm");
  return x * rsqrt(mean(x * x, -1, KeepDims::yes) + 1e-6);
}

Tensor attentionOf(const Model &model, const Tensor &x, const std::string &name, int64_t heads, const Rotary &rotary,
                   const ForwardPass &pass) {
  const Scope scope(name);
  const auto part = [&](const char *which) { return splitHeads(model.linear(x, name + which), heads); };
  const Tensor q = rotary(normed(part("c_q"))), k = rotary(normed(part("c_k")));
  return model.linear(joinHeads(causalAttention(model, q, k, part("c_v"), pass)), name + "c_proj");
}

Tensor squaredReluMlp(const Model &model, const Tensor &x, const std::string &name) {
  const Scope scope(name);
  const Tensor positive = relu(model.linear(x, name + "c_fc"));
  return model.linear(positive * positive, name + "c_proj");
}

} // namespace

Tensor modernHidden(const ModernConfig &config, const Model &model, const Tensor &tokens, const ForwardPass &pass) {
  std::vector<double> frequencies;
  const int64_t size = config.width / config.heads;
  for (int64_t i = 0; i < size / 2; ++i)
    frequencies.push_back(std::pow(config.ropeBase, -2.0 * double(i) / double(size)));
  const Rotary rotary(frequencies, tokens.dim(1), pass);
  const auto embedded = [&] {
    const Scope scope("embedding");
    return normed(nn::embedding(model.at("wte.weight"), tokens));
  };
  Tensor x = embedded();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    const Scope scope(block);
    x = x + attentionOf(model, normed(x), block + "attn.", config.heads, rotary, pass);
    x = x + squaredReluMlp(model, normed(x), block + "mlp.");
  }
  return normed(x);
}

} // namespace tcc::models
