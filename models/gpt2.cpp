// GPT-2 (Radford et al. 2019): LayerNorm before attention and MLP, learned positions, tanh-GELU, the head is the
// embedding.
#include "models/model.h"

#include <cmath>
#include <limits>

namespace tcc::models {

namespace {

Tensor normed(const Model &model, const Tensor &x, const std::string &name, double eps) {
  const Scope scope(name);
  return nn::norm(x, {model.at(name + ".weight"), model.at(name + ".bias")}, eps);
}

/// softmax(q·kᵀ / √d, causal), its shares dropped out, ·v.
Tensor attentionWithDropout(const Tensor &q, const Tensor &k, const Tensor &v, TrainingDropout &dropout) {
  const int64_t length = q.dim(2);
  const Shape square = {length, length};
  const Tensor scores = matmul(q, k, {.transposeB = true}) * (1 / std::sqrt(double(q.dim(3))));
  const Tensor seen = lessEqual(iota(1, square), iota(0, square));
  const Tensor shares = softmax(select(seen, scores, -std::numeric_limits<double>::infinity()));
  return matmul(dropout(shares), v);
}

Tensor attentionOf(const Model &model, const Tensor &x, const std::string &name, int64_t heads,
                   TrainingDropout *dropout) {
  const Scope scope(name);
  const std::vector<Tensor> parts = split(model.conv1d(x, name + "c_attn"), 2, 3);
  const Tensor q = splitHeads(parts[0], heads), k = splitHeads(parts[1], heads), v = splitHeads(parts[2], heads);
  const Tensor mixed = dropout && *dropout ? attentionWithDropout(q, k, v, *dropout) : attention(q, k, v, true);
  return model.conv1d(joinHeads(mixed), name + "c_proj");
}

} // namespace

Tensor gpt2Hidden(const Gpt2Config &config, const Model &model, const Tensor &tokens, TrainingDropout *dropout) {
  const auto dropped = [&](const Tensor &x) { return dropout ? (*dropout)(x) : x; };
  const double eps = config.layerNormEpsilon;
  const auto embedded = [&] {
    const Scope scope("embedding");
    return dropped(nn::embedding(model.at("wte.weight"), tokens) + slice(model.at("wpe.weight"), 0, 0, tokens.dim(1)));
  };
  const auto mlp = [&](const Tensor &x, const std::string &name) {
    const Scope scope(name);
    return model.conv1d(gelu(model.conv1d(x, name + "c_fc")), name + "c_proj");
  };
  Tensor x = embedded();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    const Scope scope(block);
    x = x + dropped(attentionOf(model, normed(model, x, block + "ln_1", eps), block + "attn.", config.heads, dropout));
    x = x + dropped(mlp(normed(model, x, block + "ln_2", eps), block + "mlp."));
  }
  return normed(model, x, "ln_f", eps);
}

} // namespace tcc::models
