#include "models/gpt2_config.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

struct Preset {
  std::string_view name;
  Gpt2Config config;
};
constexpr Preset presets[] = {
    {"baby", {.layers = 4, .heads = 4, .width = 128, .sequence = 64, .vocab = 256}},
    {"char", {.layers = 6, .heads = 6, .width = 384, .sequence = 256, .vocab = 256}},
    {"gpt2", {.layers = 12, .heads = 12, .width = 768, .sequence = 1024, .vocab = 50257}},
    {"gpt2-medium", {.layers = 24, .heads = 16, .width = 1024, .sequence = 1024, .vocab = 50257}},
    {"gpt2-large", {.layers = 36, .heads = 20, .width = 1280, .sequence = 1024, .vocab = 50257}},
    {"gpt2-xl", {.layers = 48, .heads = 25, .width = 1600, .sequence = 1024, .vocab = 50257}},
    {"script-baby",
     {.layers = 4, .heads = 4, .width = 128, .sequence = 64, .vocab = 256, .tied = false, .separate = true}},
    {"script-163m",
     {.layers = 12, .heads = 12, .width = 768, .sequence = 1024, .vocab = 50257, .tied = false, .separate = true}},
};

using Json = nlohmann::ordered_json;

void refuseOtherModels(const ConfigReader &reader) {
  const std::string &path = reader.path;
  if (std::string type = reader.text("model_type", "gpt2"); type != "gpt2" && type != separateGpt2Type)
    throw Error(fmt::format("{}: `model_type` is {}, only `gpt2` and `{}` are supported", path, inQuotes(type),
                            separateGpt2Type));
  std::string activation = reader.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    throw Error(fmt::format("{}: `activation_function` is {}, only the tanh form of GELU is supported (`gelu_new` "
                            "or `gelu_pytorch_tanh`)",
                            path, inQuotes(activation)));
  reader.expect("scale_attn_weights", true);
  reader.expect("scale_attn_by_inverse_layer_idx", false);
  reader.expect("add_cross_attention", false);
  if (reader.value("n_inner") && reader.size("n_inner") != 4 * reader.size("n_embd"))
    throw Error(fmt::format("{}: `n_inner` is {}, only 4 times `n_embd` ({}) is supported", path,
                            reader.size("n_inner"), 4 * reader.size("n_embd")));
}

} // namespace

std::optional<Gpt2Config> gpt2Preset(std::string_view name) {
  for (const Preset &preset : presets)
    if (preset.name == name)
      return preset.config;
  return std::nullopt;
}

void checkConfig(const Gpt2Config &config) {
  const std::pair<const char *, int64_t> sizes[] = {{"layers", config.layers},
                                                    {"heads", config.heads},
                                                    {"width", config.width},
                                                    {"sequence", config.sequence},
                                                    {"vocab", config.vocab}};
  if (config.layers > layerLimit)
    throw Error(fmt::format("layers is {}, it must be from 1 to {}", config.layers, layerLimit));
  for (auto [name, value] : sizes)
    if (value < 1 || value > sizeLimit)
      throw Error(fmt::format("{} is {}, it must be from 1 to {}", name, value, sizeLimit));
  if (config.width % config.heads != 0)
    throw Error(fmt::format("width {} is not a multiple of heads {}", config.width, config.heads));
  if (!(config.layerNormEpsilon > 0 && config.layerNormEpsilon < 1))
    throw Error(fmt::format("layer norm epsilon is {}, it must be between 0 and 1", config.layerNormEpsilon));
  double width = double(config.width);
  double tokens = double(config.vocab) * (config.tied ? 1 : 2);
  double elements = double(config.layers) * 12 * width * width + (tokens + double(config.sequence)) * width;
  if (elements > elementLimit)
    throw Error(
        fmt::format("the model would have {:.3g} parameters, at most {:.3g} are allowed", elements, elementLimit));
}

Gpt2Config readGpt2Config(const ConfigReader &reader) {
  const std::string &path = reader.path;
  refuseOtherModels(reader);
  Gpt2Config config{.layers = reader.size("n_layer"),
                    .heads = reader.size("n_head"),
                    .width = reader.size("n_embd"),
                    .sequence = reader.size("n_positions"),
                    .vocab = reader.size("vocab_size"),
                    .layerNormEpsilon = reader.number("layer_norm_epsilon", 1e-5),
                    .tied = reader.flag("tie_word_embeddings", true),
                    .separate = reader.text("model_type", "gpt2") == separateGpt2Type,
                    .dropout = {.embedding = readDropoutRate(reader, "embd_pdrop"),
                                .attention = readDropoutRate(reader, "attn_pdrop"),
                                .residual = readDropoutRate(reader, "resid_pdrop")}};
  try {
    checkConfig(config);
  } catch (const Error &error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
  return config;
}

ConfigKeys gpt2ConfigKeys(const Gpt2Config &config) {
  Json usual = {{"architectures", {"GPT2LMHeadModel"}},   {"activation_function", "gelu_new"},
                {"resid_pdrop", config.dropout.residual}, {"embd_pdrop", config.dropout.embedding},
                {"attn_pdrop", config.dropout.attention}, {"tie_word_embeddings", config.tied}};
  if (config.separate)
    usual.erase("architectures"); // transformers has none
  const Json own = {{"model_type", config.separate ? separateGpt2Type : "gpt2"},
                    {"vocab_size", config.vocab},
                    {"n_positions", config.sequence},
                    {"n_embd", config.width},
                    {"n_layer", config.layers},
                    {"n_head", config.heads},
                    {"layer_norm_epsilon", config.layerNormEpsilon}};
  return {usual, own};
}

std::vector<ParameterSpec> gpt2Parameters(const Gpt2Config &config) {
  const int64_t width = config.width;
  constexpr double deviation = 0.02;
  // Each block adds twice to the residual stream; this keeps the stream's variance independent of the depth.
  const double residual = deviation / std::sqrt(2.0 * double(config.layers));
  std::vector<ParameterSpec> list;
  auto layerNorm = [&](const std::string &name) {
    list.push_back(vectorSpec(name + ".weight", width, InitialValue::Ones));
    list.push_back(vectorSpec(name + ".bias", width, InitialValue::Zeros));
  };
  auto linear = [&](const std::string &name, int64_t in, int64_t out, double std) {
    list.push_back(matrixSpec(name + ".weight", in, out, std));
    list.push_back(vectorSpec(name + ".bias", out, InitialValue::Zeros));
  };
  list.push_back(matrixSpec("wte.weight", config.vocab, width, deviation));
  list.push_back(matrixSpec("wpe.weight", config.sequence, width, deviation));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string block = fmt::format("h.{}.", layer);
    layerNorm(block + "ln_1");
    if (config.separate)
      for (const char *part : {"attn.c_q", "attn.c_k", "attn.c_v"})
        list.push_back(matrixSpec(block + part + ".weight", width, width, deviation));
    else
      linear(block + "attn.c_attn", width, 3 * width, deviation);
    linear(block + "attn.c_proj", width, width, residual);
    layerNorm(block + "ln_2");
    linear(block + "mlp.c_fc", width, 4 * width, deviation);
    linear(block + "mlp.c_proj", 4 * width, width, residual);
  }
  layerNorm("ln_f");
  if (!config.tied)
    list.push_back(matrixSpec("lm_head.weight", config.vocab, width, deviation));
  return list;
}

} // namespace tcc::models
