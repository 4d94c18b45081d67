// The configuration of any model that can be trained here, and the one list of presets.
#pragma once
#include "models/gpt2_config.h"
#include "models/llama_config.h"
#include "models/modern_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tcc::models {

struct TokenizerFiles;

struct ModelConfig {
  std::variant<Gpt2Config, LlamaConfig, ModernConfig> kind;

  ModelConfig(const Gpt2Config &config = {}) : kind(config) {}
  ModelConfig(const LlamaConfig &config) : kind(config) {}
  ModelConfig(const ModernConfig &config) : kind(config) {}

  int64_t layers() const;
  int64_t vocabulary() const;
  /// The longest sequence.
  int64_t positions() const;
  /// Heads of keys and values, and the size of each.
  int64_t keyValueHeads() const;
  int64_t headSize() const;
  std::vector<ParameterSpec> parameters() const;
  /// The matrix of tokens, in parameters().
  std::string embeddingName() const;
  /// Whether a linear layer's weight is [inputs, outputs] and not [outputs, inputs].
  bool storesInputsFirst() const;
  /// Whether the head is the embedding.
  bool tied() const;
  /// The dropout of training steps.
  DropoutRates dropout() const;
  /// Gives every place that the kind has this rate; false where it has none.
  bool setDropout(double rate);
  /// What other files may put before every name, or leave out there: "transformer." and "model.".
  std::string prefix() const;
  /// "gpt2: 4 layers, 4 heads, width 128, 64 positions, vocabulary 256".
  std::string describe() const;

  bool operator==(const ModelConfig &) const = default;
};

/// "baby", "char", "gpt2", …, "llama-baby", …; nothing for another name.
std::optional<ModelConfig> modelPreset(std::string_view name);
/// The names of the presets.
std::vector<std::string> modelPresetNames();

/// Throws Error where a size is out of its range or sizes do not fit together. Every other function here expects a
/// checked configuration.
void checkConfig(const ModelConfig &config);

/// Reads a Hugging Face `config.json` (at most 1 MiB) of `model_type` gpt2, llama, qwen2, qwen3 or tcc_modern_gpt.
/// Throws Error for a file that is no JSON object, a missing or wrong size, or a feature that is not here.
/// Dropout that training here leaves out is said in `notes`, one line each, where it is given; `text` gets the file's
/// text.
ModelConfig readConfig(const std::string &path, std::vector<std::string> *notes = nullptr, std::string *text = nullptr);
/// Writes a `config.json` that transformers reads, atomically. `original` is the text of the one that training began
/// with, or empty. Sizes and the stored type are those of `config`; whatever else `original` says stays, known here or
/// not. But the ids of the tokens that begin and end a text become those of `tokenizer`, or null, if they are beyond
/// the vocabulary or if it is another tokenizer than before. Throws Error where it cannot write.
void writeConfig(const std::string &path, const ModelConfig &config, const std::string &original,
                 const TokenizerFiles &tokenizer);
/// The same for a run that began without a folder and has no tokenizer.
void writeConfig(const std::string &path, const ModelConfig &config);

/// Number of trained values, N.
int64_t parameterCount(const ModelConfig &config);
/// What training on a token of a sequence of `length` computes in matmuls and attention: 6 times the values of the
/// matrices that it is multiplied with, and 6 · layers · width of the heads · length, the pairs that causal attention
/// sees. Optimizers are not counted.
double trainingFlopsPerToken(const ModelConfig &config, int64_t length);

} // namespace tcc::models
