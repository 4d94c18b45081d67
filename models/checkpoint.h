// Reads and writes a Hugging Face folder (config.json, safetensors), and writes files of named tensors such as
// gradients.
#pragma once
#include "models/model_config.h"
#include "models/tokenizer_files.h"
#include "models/weight_files.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// An f32 tensor under a name, row-major; `values` belong to `owner`, or without one to the caller.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
  std::shared_ptr<const std::vector<float>> owner = {};
};

/// A folder to start from. Names may carry or lack transformers' prefix (`transformer.`, `model.`); the embedding and
/// the head may have more rows than the vocabulary (padding, dropped); attention masks and a tied `lm_head.weight`
/// equal to the embedding are passed over.
class ModelFolder {
public:
  /// Reads the configuration and checks that every parameter is there with its shape and a float dtype, and that a head
  /// in the file is the tied one. Throws Error otherwise.
  explicit ModelFolder(const std::string &folder);

  const ModelConfig &config() const { return model; }
  /// The text of config.json, for a folder that is written from this one.
  const std::string &configText() const { return originalConfig; }
  /// What was passed over, one line each, for the user.
  const std::vector<std::string> &notes() const { return remarks; }
  /// Copies one of config().parameters() as f32, in Hugging Face's layout.
  void read(const ParameterSpec &parameter, std::span<float> out) const;

  /// The parameter's name in the files.
  std::string sourceName(const ParameterSpec &parameter) const;

  /// A checksum of the weights: folders with equal checksums have equal weights.
  std::string fingerprint() const;

private:
  WeightFiles::Tensor tensor(const ParameterSpec &parameter) const;
  void checkHead() const;

  std::vector<std::string> remarks;
  std::string originalConfig;
  ModelConfig model; // its initialiser also sets the two members above
  WeightFiles files;
};

/// The paths that writeModelFolder replaces.
std::vector<std::string> modelFolderFiles(const std::string &folder);

/// Makes `folder` where it is missing. Throws Error where that, or making files in it, cannot be done.
void prepareFolder(const std::string &folder);

/// Writes `folder` (made where missing) with config.json, model.safetensors and the tokenizer's files; `tensors` are
/// all of config.parameters(), `configText` is that of the folder that training began with, or empty (see writeConfig).
/// Throws Error where the system cannot.
void writeModelFolder(const std::string &folder, const ModelConfig &config, std::span<const NamedTensor> tensors,
                      const std::string &configText = {}, const TokenizerFiles &tokenizer = {});

/// Writes f32 tensors to one safetensors file, for example gradients under their parameters' names.
void writeTensors(const std::string &path, std::span<const NamedTensor> tensors);

} // namespace tcc::models
