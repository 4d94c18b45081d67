// The sizes and parameters of the Llama family: Llama, Qwen2 and Qwen3, as Hugging Face names and stores them.
#pragma once
#include "models/parameter_spec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

struct ConfigReader;
struct ConfigKeys;

/// Llama 3's scaling of the rotary embedding: low frequencies are divided by `factor`, high ones stay as they are.
struct RopeScaling {
  double factor = 8, lowFrequency = 1, highFrequency = 4;
  int64_t originalPositions = 8192;

  bool operator==(const RopeScaling &) const = default;
};

enum class LlamaKind {
  Llama, ///< no biases, or biases on all layers of the attention, or on all of the MLP
  Qwen2, ///< biases on query, key and value
  Qwen3  ///< RMSNorm of each head's query and key
};

/// RMSNorm, rotary embeddings, SwiGLU, grouped heads.
struct LlamaConfig {
  LlamaKind kind = LlamaKind::Llama;
  int64_t layers = 4;
  int64_t heads = 4;         ///< of the queries
  int64_t keyValueHeads = 2; ///< divide `heads`
  int64_t headSize = 32;     ///< even; need not be width / heads
  int64_t width = 128;
  int64_t inner = 352; ///< width inside the MLP
  int64_t sequence = 64;
  int64_t vocab = 256;
  double normEpsilon = 1e-5;
  double ropeBase = 10000;
  std::optional<RopeScaling> ropeScaling = {};
  bool tied = true;            ///< the head is the embedding
  bool attentionBias = false;  ///< of Llama and Qwen3: query, key, value and output
  bool mlpBias = false;        ///< of Llama: gate, up and down
  double attentionDropout = 0; ///< in training

  bool operator==(const LlamaConfig &) const = default;
};

/// "llama-baby" or "llama-160m"; nothing for another name.
std::optional<LlamaConfig> llamaPreset(std::string_view name);

/// Throws Error where a size is out of its range or sizes do not fit together.
void checkConfig(const LlamaConfig &config);

/// Reads a config.json whose `model_type` is llama, qwen2 or qwen3. Throws Error for a missing or wrong size, or a
/// feature that is not here.
LlamaConfig readLlamaConfig(const ConfigReader &reader);
ConfigKeys llamaConfigKeys(const LlamaConfig &config);

/// "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", …, "model.norm.weight", and "lm_head.weight"
/// unless tied.
std::vector<ParameterSpec> llamaParameters(const LlamaConfig &config);

/// The headSize / 2 frequencies, with Llama 3's scaling applied: by how much each position turns pair i of a head's
/// values.
std::vector<double> rotaryFrequencies(const LlamaConfig &config);

} // namespace tcc::models
