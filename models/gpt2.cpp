// GPT-2 (Radford et al. 2019): LayerNorm before attention and MLP, learned positions, tanh-GELU.
#include "models/model.h"

namespace tcc::models {

namespace {

Tensor normed(const Model &model, const Tensor &x, const std::string &name, double eps) {
  const Scope scope(name);
  return nn::norm(x, {model.at(name + ".weight"), model.at(name + ".bias")}, eps);
}

/// Queries, keys and values of the attention `name`, by one matmul or by three.
std::vector<Tensor> queriesKeysValues(const Model &model, const Tensor &x, const std::string &name) {
  if (model.has(name + "c_attn.weight"))
    return split(model.conv1d(x, name + "c_attn"), 2, 3);
  return {model.conv1d(x, name + "c_q"), model.conv1d(x, name + "c_k"), model.conv1d(x, name + "c_v")};
}

Tensor attentionOf(const Model &model, const Tensor &x, const std::string &name, int64_t heads,
                   const ForwardPass &pass) {
  const Scope scope(name);
  const std::vector<Tensor> parts = queriesKeysValues(model, x, name);
  const Tensor q = splitHeads(parts[0], heads), k = splitHeads(parts[1], heads), v = splitHeads(parts[2], heads);
  return model.conv1d(joinHeads(causalAttention(model, q, k, v, pass)), name + "c_proj");
}

} // namespace

Tensor gpt2Hidden(const Gpt2Config &config, const Model &model, const Tensor &tokens, const ForwardPass &pass) {
  const DropoutRates rates = pass.rates();
  const double eps = config.layerNormEpsilon;
  const auto embedded = [&] {
    const Scope scope("embedding");
    const Tensor table = model.at("wpe.weight");
    const bool isOne = pass.text && pass.text->position().defined();
    const Tensor positions = isOne ? gather(table, pass.text->position()) : slice(table, 0, 0, tokens.dim(1));
    return pass.dropped(nn::embedding(model.at("wte.weight"), tokens) + positions, rates.embedding);
  };
  const auto mlp = [&](const Tensor &x, const std::string &name) {
    const Scope scope(name);
    return model.conv1d(gelu(model.conv1d(x, name + "c_fc")), name + "c_proj");
  };
  Tensor x = embedded();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    const Scope scope(block);
    const Tensor mixed = attentionOf(model, normed(model, x, block + "ln_1", eps), block + "attn.", config.heads, pass);
    x = x + pass.dropped(mixed, rates.residual);
    x = x + pass.dropped(mlp(normed(model, x, block + "ln_2", eps), block + "mlp."), rates.residual);
  }
  return normed(model, x, "ln_f", eps);
}

} // namespace tcc::models
