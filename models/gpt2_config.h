// GPT-2's sizes and its list of parameters: names, shapes, decay and initial values, as Hugging Face stores them.
#pragma once
#include "models/dropout_rates.h"
#include "models/parameter_spec.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

struct ConfigReader;
struct ConfigKeys;

/// The sizes of a GPT-2: biases everywhere, LayerNorm, tanh-GELU, an MLP four times as wide. With `separate`, which is
/// no model of transformers', queries, keys and values have a matrix each and no biases.
struct Gpt2Config {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t sequence = 64; ///< rows of the position table: the longest sequence
  int64_t vocab = 256;
  double layerNormEpsilon = 1e-5;
  bool tied = true;          ///< the head is `wte`
  bool separate = false;     ///< c_q, c_k and c_v [width, width] in place of c_attn and its bias
  DropoutRates dropout = {}; ///< in training

  bool operator==(const Gpt2Config &) const = default;
};

/// The `model_type` of a configuration with separate queries, keys and values.
constexpr std::string_view separateGpt2Type = "tcc_separate_gpt2";

/// "baby", "char", "gpt2", "gpt2-medium", …, "script-163m"; nothing for another name.
std::optional<Gpt2Config> gpt2Preset(std::string_view name);

/// Throws Error where a size is below 1 or above 2^24 (layers: 4096), heads do not divide the width, or the
/// parameters would have more than 2^40 elements. Every other function here expects a checked configuration.
void checkConfig(const Gpt2Config &config);

/// Throws Error for a missing or wrong size, or a feature that this GPT-2 does not have (another activation or MLP
/// width, …).
Gpt2Config readGpt2Config(const ConfigReader &reader);
ConfigKeys gpt2ConfigKeys(const Gpt2Config &config);

/// All parameters: wte, wpe, the blocks in order, ln_f: 4 + 12 * layers of them; and lm_head unless tied.
std::vector<ParameterSpec> gpt2Parameters(const Gpt2Config &config);

} // namespace tcc::models
