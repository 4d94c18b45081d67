// GPT-2 (Radford et al. 2019): LayerNorm before attention and MLP, learned positions, tanh-GELU.
#include "models/model.h"

namespace tcc::models {

namespace {

Tensor normed(const Model &model, const Tensor &x, const std::string &name, double eps) {
  const Scope scope(name);
  return nn::norm(x, {model.at(name + ".weight"), model.at(name + ".bias")}, eps);
}

Tensor attentionOf(const Model &model, const Tensor &x, const std::string &name, int64_t heads,
                   TrainingDropout *dropout) {
  const Scope scope(name);
  const std::vector<Tensor> parts = split(model.conv1d(x, name + "c_attn"), 2, 3);
  const Tensor q = splitHeads(parts[0], heads), k = splitHeads(parts[1], heads), v = splitHeads(parts[2], heads);
  return model.conv1d(joinHeads(causalAttention(model, q, k, v, dropout)), name + "c_proj");
}

} // namespace

Tensor gpt2Hidden(const Gpt2Config &config, const Model &model, const Tensor &tokens, TrainingDropout *dropout) {
  const DropoutRates rates = dropout ? dropout->rates : DropoutRates{};
  const auto dropped = [&](const Tensor &x, double rate) { return dropout ? (*dropout)(x, rate) : x; };
  const double eps = config.layerNormEpsilon;
  const auto embedded = [&] {
    const Scope scope("embedding");
    return dropped(nn::embedding(model.at("wte.weight"), tokens) + slice(model.at("wpe.weight"), 0, 0, tokens.dim(1)),
                   rates.embedding);
  };
  const auto mlp = [&](const Tensor &x, const std::string &name) {
    const Scope scope(name);
    return model.conv1d(gelu(model.conv1d(x, name + "c_fc")), name + "c_proj");
  };
  Tensor x = embedded();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    const Scope scope(block);
    x = x + dropped(attentionOf(model, normed(model, x, block + "ln_1", eps), block + "attn.", config.heads, dropout),
                    rates.residual);
    x = x + dropped(mlp(normed(model, x, block + "ln_2", eps), block + "mlp."), rates.residual);
  }
  return normed(model, x, "ln_f", eps);
}

} // namespace tcc::models
