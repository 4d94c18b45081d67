#include "models/llama_config.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"
#include "models/dropout_rates.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;

struct KindName {
  LlamaKind kind;
  const char *type, *architecture;
};
constexpr KindName kinds[] = {{LlamaKind::Llama, "llama", "LlamaForCausalLM"},
                              {LlamaKind::Qwen2, "qwen2", "Qwen2ForCausalLM"},
                              {LlamaKind::Qwen3, "qwen3", "Qwen3ForCausalLM"}};

const KindName &nameOf(LlamaKind kind) {
  return kinds[size_t(kind)];
}

/// transformers 5 gathers the rotary settings in `rope_parameters`; before, they stood in `rope_theta`, `rope_scaling`.
void readRope(const ConfigReader &reader, LlamaConfig &config) {
  const Json *gathered = reader.value("rope_parameters"), *scaling = reader.value("rope_scaling");
  config.ropeBase = reader.number("rope_theta", 10000);
  const Json *rope = gathered ? gathered : scaling;
  if (!rope)
    return;
  if (!rope->is_object())
    throw Error(fmt::format("{}: `{}` is {}, an object is expected", reader.path,
                            gathered ? "rope_parameters" : "rope_scaling", ConfigReader::shown(*rope)));
  const ConfigReader inner{reader.path, *rope};
  config.ropeBase = inner.number("rope_theta", config.ropeBase);
  const std::string type = inner.text("rope_type", inner.text("type", "default").c_str());
  if (type == "default")
    return;
  if (type != "llama3")
    throw Error(
        fmt::format("{}: `rope_type` is {}, only `default` and `llama3` are supported", reader.path, inQuotes(type)));
  config.ropeScaling = RopeScaling{.factor = inner.number("factor", 8),
                                   .lowFrequency = inner.number("low_freq_factor", 1),
                                   .highFrequency = inner.number("high_freq_factor", 4),
                                   .originalPositions = inner.size("original_max_position_embeddings", 8192)};
}

} // namespace

std::optional<LlamaConfig> llamaPreset(std::string_view name) {
  if (name == "llama-baby")
    return LlamaConfig{};
  if (name == "llama-160m")
    return LlamaConfig{.layers = 12,
                       .heads = 12,
                       .keyValueHeads = 12,
                       .headSize = 64,
                       .width = 768,
                       .inner = 3072,
                       .sequence = 2048,
                       .vocab = 32000,
                       .normEpsilon = 1e-6,
                       .tied = false};
  return std::nullopt;
}

void checkConfig(const LlamaConfig &config) {
  const std::pair<const char *, int64_t> sizes[] = {
      {"layers", config.layers},      {"heads", config.heads}, {"key and value heads", config.keyValueHeads},
      {"head size", config.headSize}, {"width", config.width}, {"inner width", config.inner},
      {"sequence", config.sequence},  {"vocab", config.vocab}};
  if (config.layers > layerLimit)
    throw Error(fmt::format("layers is {}, it must be from 1 to {}", config.layers, layerLimit));
  for (auto [name, value] : sizes)
    if (value < 1 || value > sizeLimit)
      throw Error(fmt::format("{} is {}, it must be from 1 to {}", name, value, sizeLimit));
  if (config.heads % config.keyValueHeads != 0)
    throw Error(
        fmt::format("heads {} is not a multiple of key and value heads {}", config.heads, config.keyValueHeads));
  if (config.headSize % 2 != 0 || config.headSize > 256)
    throw Error(fmt::format("head size {} is odd or above 256, rotary embeddings turn pairs", config.headSize));
  if (!(config.normEpsilon > 0 && config.normEpsilon < 1))
    throw Error(fmt::format("norm epsilon is {}, it must be between 0 and 1", config.normEpsilon));
  if (!(config.ropeBase > 1 && config.ropeBase < 1e15))
    throw Error(fmt::format("rotary base is {}, it must be above 1 and below 1e15", config.ropeBase));
  if (const auto &scaling = config.ropeScaling)
    if (!(scaling->factor >= 1 && scaling->lowFrequency > 0 && scaling->highFrequency > scaling->lowFrequency))
      throw Error(fmt::format("rotary scaling by {} between the frequencies {} and {}: a factor from 1 on and a low "
                              "frequency below the high one are expected",
                              scaling->factor, scaling->lowFrequency, scaling->highFrequency));
  const double width = double(config.width), heads = double(config.heads + config.keyValueHeads);
  const double elements =
      double(config.layers) * width * (2 * heads * double(config.headSize) + 3 * double(config.inner)) +
      double(config.vocab) * width * (config.tied ? 1 : 2);
  if (elements > elementLimit)
    throw Error(
        fmt::format("the model would have {:.3g} parameters, at most {:.3g} are allowed", elements, elementLimit));
}

LlamaConfig readLlamaConfig(const ConfigReader &reader) {
  LlamaConfig config;
  const std::string type = reader.text("model_type", "llama");
  for (const KindName &name : kinds)
    if (type == name.type)
      config.kind = name.kind;
  if (const std::string activation = reader.text("hidden_act", "silu"); activation != "silu")
    throw Error(fmt::format("{}: `hidden_act` is {}, only `silu` is supported", reader.path, inQuotes(activation)));
  if (config.kind == LlamaKind::Llama)
    config.mlpBias = reader.flag("mlp_bias", false);
  else
    reader.expect("mlp_bias", false);
  reader.expect("use_sliding_window", false);
  config.layers = reader.size("num_hidden_layers");
  config.heads = reader.size("num_attention_heads");
  config.keyValueHeads = reader.size("num_key_value_heads", config.heads);
  config.width = reader.size("hidden_size");
  config.inner = reader.size("intermediate_size");
  config.headSize = config.kind == LlamaKind::Qwen3 ? reader.size("head_dim", 128)
                                                    : reader.size("head_dim", config.width / config.heads);
  config.sequence = reader.size("max_position_embeddings", 2048);
  config.vocab = reader.size("vocab_size");
  config.normEpsilon = reader.number("rms_norm_eps", 1e-6);
  config.tied = reader.flag("tie_word_embeddings", false);
  config.attentionBias = config.kind != LlamaKind::Qwen2 && reader.flag("attention_bias", false);
  config.attentionDropout = readDropoutRate(reader, "attention_dropout");
  readRope(reader, config);
  try {
    checkConfig(config);
  } catch (const Error &error) {
    throw Error(fmt::format("{}: {}", reader.path, error.what()));
  }
  return config;
}

ConfigKeys llamaConfigKeys(const LlamaConfig &config) {
  const KindName &name = nameOf(config.kind);
  Json usual = {
      {"architectures", {name.architecture}}, {"hidden_act", "silu"}, {"attention_dropout", config.attentionDropout}};
  if (config.kind == LlamaKind::Llama)
    usual["mlp_bias"] = config.mlpBias;
  // Both spellings, old and new.
  Json rope = {{"rope_type", "default"}, {"rope_theta", config.ropeBase}};
  if (const auto &scaling = config.ropeScaling)
    rope = {{"rope_type", "llama3"},
            {"rope_theta", config.ropeBase},
            {"factor", scaling->factor},
            {"low_freq_factor", scaling->lowFrequency},
            {"high_freq_factor", scaling->highFrequency},
            {"original_max_position_embeddings", scaling->originalPositions}};
  usual["rope_theta"] = config.ropeBase;
  usual["rope_scaling"] = config.ropeScaling ? rope : Json();
  usual["rope_parameters"] = rope;
  Json own = {{"model_type", name.type},
              {"vocab_size", config.vocab},
              {"hidden_size", config.width},
              {"intermediate_size", config.inner},
              {"num_hidden_layers", config.layers},
              {"num_attention_heads", config.heads},
              {"num_key_value_heads", config.keyValueHeads},
              {"head_dim", config.headSize},
              {"max_position_embeddings", config.sequence},
              {"rms_norm_eps", config.normEpsilon},
              {"tie_word_embeddings", config.tied}};
  if (config.kind != LlamaKind::Qwen2)
    own["attention_bias"] = config.attentionBias;
  return {usual, own};
}

std::vector<ParameterSpec> llamaParameters(const LlamaConfig &config) {
  constexpr double deviation = 0.02;
  // Each block adds twice to the residual stream; this keeps the stream's variance independent of the depth.
  const double residual = deviation / std::sqrt(2.0 * double(config.layers));
  const int64_t width = config.width, queries = config.heads * config.headSize,
                keys = config.keyValueHeads * config.headSize;
  const bool inputBias = config.kind == LlamaKind::Qwen2 || config.attentionBias;
  std::vector<ParameterSpec> list;
  const auto linear = [&](const std::string &name, int64_t in, int64_t out, bool bias, double std) {
    list.push_back(matrixSpec(name + ".weight", out, in, std));
    if (bias)
      list.push_back(vectorSpec(name + ".bias", out, InitialValue::Zeros));
  };
  list.push_back(matrixSpec("model.embed_tokens.weight", config.vocab, width, deviation));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("model.layers.{}.", layer);
    list.push_back(vectorSpec(block + "input_layernorm.weight", width, InitialValue::Ones));
    linear(block + "self_attn.q_proj", width, queries, inputBias, deviation);
    linear(block + "self_attn.k_proj", width, keys, inputBias, deviation);
    linear(block + "self_attn.v_proj", width, keys, inputBias, deviation);
    linear(block + "self_attn.o_proj", queries, width, config.attentionBias, residual);
    if (config.kind == LlamaKind::Qwen3)
      for (const char *name : {"q_norm", "k_norm"})
        list.push_back(
            vectorSpec(fmt::format("{}self_attn.{}.weight", block, name), config.headSize, InitialValue::Ones));
    list.push_back(vectorSpec(block + "post_attention_layernorm.weight", width, InitialValue::Ones));
    linear(block + "mlp.gate_proj", width, config.inner, config.mlpBias, deviation);
    linear(block + "mlp.up_proj", width, config.inner, config.mlpBias, deviation);
    linear(block + "mlp.down_proj", config.inner, width, config.mlpBias, residual);
  }
  list.push_back(vectorSpec("model.norm.weight", width, InitialValue::Ones));
  if (!config.tied)
    list.push_back(matrixSpec("lm_head.weight", config.vocab, width, deviation));
  return list;
}

std::vector<double> rotaryFrequencies(const LlamaConfig &config) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < config.headSize / 2; ++i) {
    double frequency = std::pow(config.ropeBase, -2.0 * double(i) / double(config.headSize));
    if (const auto &scaling = config.ropeScaling) {
      // Waves in the original length: few are slow and stretched, many are quick and kept, between them a mix.
      const double waves = double(scaling->originalPositions) * frequency / (2 * std::numbers::pi);
      const double quick =
          std::clamp((waves - scaling->lowFrequency) / (scaling->highFrequency - scaling->lowFrequency), 0.0, 1.0);
      frequency *= quick + (1 - quick) / scaling->factor;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

} // namespace tcc::models
