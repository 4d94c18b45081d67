// The Llama family (Touvron et al. 2023): RMSNorm, rotary embeddings, grouped heads (Ainslie et al. 2023), SwiGLU
// (Shazeer 2020). Qwen2 adds biases to query, key and value, Qwen3 norms of each head's query and key.
#include "models/model.h"

namespace tcc::models {

namespace {

Tensor attentionOf(const LlamaConfig &config, const Model &model, const Tensor &x, const std::string &name,
                   const Rotary &rotary, const ForwardPass &pass) {
  const Scope scope(name);
  Tensor q = splitHeads(model.linear(x, name + "q_proj"), config.heads);
  Tensor k = splitHeads(model.linear(x, name + "k_proj"), config.keyValueHeads);
  const Tensor v = splitHeads(model.linear(x, name + "v_proj"), config.keyValueHeads);
  if (config.kind == LlamaKind::Qwen3) {
    q = rmsNorm(q, model.at(name + "q_norm.weight"), config.normEpsilon);
    k = rmsNorm(k, model.at(name + "k_norm.weight"), config.normEpsilon);
  }
  return model.linear(joinHeads(causalAttention(model, rotary(q), rotary(k), v, pass)), name + "o_proj");
}

Tensor gatedMlp(const Model &model, const Tensor &x, const std::string &name) {
  const Scope scope(name);
  const Tensor gate = silu(model.linear(x, name + "gate_proj"));
  return model.linear(gate * model.linear(x, name + "up_proj"), name + "down_proj");
}

} // namespace

Tensor llamaHidden(const LlamaConfig &config, const Model &model, const Tensor &tokens, const ForwardPass &pass) {
  const auto normed = [&](const Tensor &x, const std::string &name) {
    const Scope scope(name);
    return rmsNorm(x, model.at(name + ".weight"), config.normEpsilon);
  };
  const Rotary rotary(rotaryFrequencies(config), tokens.dim(1), pass);
  const auto embedded = [&] {
    const Scope scope("model.embed_tokens");
    return nn::embedding(model.at("model.embed_tokens.weight"), tokens);
  };
  Tensor x = embedded();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    const Scope scope(block);
    x = x + attentionOf(config, model, normed(x, block + "input_layernorm"), block + "self_attn.", rotary, pass);
    x = x + gatedMlp(model, normed(x, block + "post_attention_layernorm"), block + "mlp.");
  }
  return normed(x, "model.norm");
}

} // namespace tcc::models
