#include "models/modern_config.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"

#include <cmath>
#include <fmt/format.h>

namespace tcc::models {

std::optional<ModernConfig> modernPreset(std::string_view name) {
  return name == "modern-124m" ? std::optional(ModernConfig{}) : std::nullopt;
}

void checkConfig(const ModernConfig &config) {
  if (config.layers < 1 || config.layers > layerLimit)
    throw Error(fmt::format("layers is {}, it must be from 1 to {}", config.layers, layerLimit));
  const std::pair<const char *, int64_t> sizes[] = {
      {"heads", config.heads}, {"width", config.width}, {"sequence", config.sequence}, {"vocab", config.vocab}};
  for (auto [name, value] : sizes)
    if (value < 1 || value > sizeLimit)
      throw Error(fmt::format("{} is {}, it must be from 1 to {}", name, value, sizeLimit));
  if (config.width % config.heads != 0 || config.width / config.heads % 2 != 0 || config.width / config.heads > 256)
    throw Error(fmt::format("width {} for {} heads: the heads divide it into even parts of at most 256", config.width,
                            config.heads));
  if (!(config.softcap > 0 && config.softcap < 1e6) || !(config.ropeBase > 1 && config.ropeBase < 1e15))
    throw Error(fmt::format("softcap {} and rotary base {}: above 0 and above 1 are expected", config.softcap,
                            config.ropeBase));
  const double width = double(config.width);
  const double elements = double(config.layers) * 12 * width * width + 2 * double(config.vocab) * width;
  if (elements > elementLimit)
    throw Error(
        fmt::format("the model would have {:.3g} parameters, at most {:.3g} are allowed", elements, elementLimit));
}

ModernConfig readModernConfig(const ConfigReader &reader) {
  const ModernConfig config{.layers = reader.size("n_layer"),
                            .heads = reader.size("n_head"),
                            .width = reader.size("n_embd"),
                            .sequence = reader.size("n_positions"),
                            .vocab = reader.size("vocab_size"),
                            .softcap = reader.number("logit_softcap", 30),
                            .ropeBase = reader.number("rope_theta", 10000)};
  try {
    checkConfig(config);
  } catch (const Error &error) {
    throw Error(fmt::format("{}: {}", reader.path, error.what()));
  }
  return config;
}

ConfigKeys modernConfigKeys(const ModernConfig &config) {
  return {nlohmann::ordered_json::object(),
          {{"model_type", "tcc_modern_gpt"},
           {"vocab_size", config.vocab},
           {"n_positions", config.sequence},
           {"n_embd", config.width},
           {"n_layer", config.layers},
           {"n_head", config.heads},
           {"logit_softcap", config.softcap},
           {"rope_theta", config.ropeBase}}};
}

std::vector<ParameterSpec> modernParameters(const ModernConfig &config) {
  const int64_t width = config.width;
  // Half of the deviation that keeps the variance; what is added to the stream and the head begin at zero.
  const double deviation = 0.5 / std::sqrt(double(width));
  std::vector<ParameterSpec> list;
  list.push_back(matrixSpec("wte.weight", config.vocab, width, 0.02));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("h.{}.", layer);
    for (const char *name : {"attn.c_q", "attn.c_k", "attn.c_v"})
      list.push_back(matrixSpec(block + name + ".weight", width, width, deviation));
    list.push_back(matrixSpec(block + "attn.c_proj.weight", width, width, 0));
    list.push_back(matrixSpec(block + "mlp.c_fc.weight", 4 * width, width, deviation));
    list.push_back(matrixSpec(block + "mlp.c_proj.weight", width, 4 * width, 0));
  }
  list.push_back(matrixSpec("lm_head.weight", config.vocab, width, 0));
  return list;
}

} // namespace tcc::models
