// The sizes and parameters of the GPT that speed runs train: rotary embeddings, norms without weights, ReLU².
#pragma once
#include "models/parameter_spec.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tcc::models {

struct ConfigReader;
struct ConfigKeys;

/// See models/README.md for its formulas.
struct ModernConfig {
  int64_t layers = 12;
  int64_t heads = 6; ///< divide the width into even parts
  int64_t width = 768;
  int64_t sequence = 1024;
  int64_t vocab = 50304;
  double softcap = 30; ///< logits stay between -softcap and softcap
  double ropeBase = 10000;

  bool operator==(const ModernConfig &) const = default;
};

/// "modern-124m"; nothing for another name.
std::optional<ModernConfig> modernPreset(std::string_view name);
/// Throws Error where a size is out of its range or sizes do not fit together.
void checkConfig(const ModernConfig &config);

/// Reads a config.json whose `model_type` is tcc_modern_gpt. Throws Error for a missing or wrong size.
ModernConfig readModernConfig(const ConfigReader &reader);
ConfigKeys modernConfigKeys(const ModernConfig &config);

std::vector<ParameterSpec> modernParameters(const ModernConfig &config);

} // namespace tcc::models
