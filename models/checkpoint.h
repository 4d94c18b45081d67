// A Hugging Face GPT-2 folder (config.json, model.safetensors) in and out, and named tensors such as gradients.
#pragma once
#include "models/gpt2_config.h"
#include "models/safetensors.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// An f32 tensor under a name, row-major; `values` belong to the caller.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

/// A folder to start from. Names may carry transformers' prefix `transformer.`; `wte.weight` may have more rows than
/// the vocabulary (padding, dropped); attention masks and the tied `lm_head.weight` are passed over.
class Gpt2Folder {
public:
  /// Reads the configuration and checks that every parameter is there with its shape and a float dtype. Throws
  /// InputError otherwise.
  explicit Gpt2Folder(const std::string &folder);

  const Gpt2Config &config() const { return gpt2; }
  /// What was passed over, one line each, for the user.
  const std::vector<std::string> &notes() const { return remarks; }
  /// Copies one of gpt2Parameters(config()) as f32, in Hugging Face's layout.
  void read(const Gpt2Parameter &parameter, std::span<float> out) const;

private:
  const TensorEntry &entry(const Gpt2Parameter &parameter) const;

  std::vector<std::string> remarks;
  Gpt2Config gpt2;
  SafetensorsFile file;
  std::string prefix;
};

/// The paths that writeGpt2Folder replaces.
std::vector<std::string> gpt2FolderFiles(const std::string &folder);

/// Makes `folder` where it is missing. Throws InputError where that, or making files in it, cannot be done.
void prepareFolder(const std::string &folder);

/// Writes `folder` (made where missing) with config.json and model.safetensors; `tensors` are all of
/// gpt2Parameters(config). Throws InputError where the system cannot.
void writeGpt2Folder(const std::string &folder, const Gpt2Config &config, std::span<const NamedTensor> tensors);

/// Writes f32 tensors to one safetensors file, for example gradients under their parameters' names.
void writeTensors(const std::string &path, std::span<const NamedTensor> tensors);

} // namespace tcc::models
