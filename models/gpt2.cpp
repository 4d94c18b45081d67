// GPT-2 (Radford et al. 2019): LayerNorm before attention and MLP, learned positions, tanh-GELU, the head is the
// embedding.
#include "models/model.h"

#include <cmath>
#include <limits>

namespace tcc::models {

namespace {

nn::Norm normOf(const Model &model, const std::string &name) {
  return {model.at(name + ".weight"), model.at(name + ".bias")};
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
  const std::vector<Tensor> parts = split(model.conv1d(x, name + "c_attn"), 2, 3);
  const Tensor q = splitHeads(parts[0], heads), k = splitHeads(parts[1], heads), v = splitHeads(parts[2], heads);
  const Tensor mixed = dropout && *dropout ? attentionWithDropout(q, k, v, *dropout) : attention(q, k, v, true);
  return model.conv1d(joinHeads(mixed), name + "c_proj");
}

} // namespace

Tensor gpt2Hidden(const Gpt2Config &config, const Model &model, const Tensor &tokens, TrainingDropout *dropout) {
  const auto dropped = [&](const Tensor &x) { return dropout ? (*dropout)(x) : x; };
  const double eps = config.layerNormEpsilon;
  Tensor x =
      dropped(nn::embedding(model.at("wte.weight"), tokens) + slice(model.at("wpe.weight"), 0, 0, tokens.dim(1)));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    const Tensor normed = nn::norm(x, normOf(model, block + "ln_1"), eps);
    x = x + dropped(attentionOf(model, normed, block + "attn.", config.heads, dropout));
    const Tensor inner = gelu(model.conv1d(nn::norm(x, normOf(model, block + "ln_2"), eps), block + "mlp.c_fc"));
    x = x + dropped(model.conv1d(inner, block + "mlp.c_proj"));
  }
  return nn::norm(x, normOf(model, "ln_f"), eps);
}

} // namespace tcc::models
