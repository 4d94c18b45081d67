// Low-rank adapters (LoRA, Hu et al. 2021): small matrices that are trained beside frozen weights, and the folders in
// which PEFT stores them.
#pragma once
#include "models/checkpoint.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// Which layers have an adapter, and its sizes. Each of `layers` computes y = x · Wᵀ + scale() · x · Aᵀ · Bᵀ with
/// A [rank, in] and B [out, rank].
struct AdapterConfig {
  int64_t rank = 0;
  double alpha = 16;
  std::vector<std::string> layers; ///< linear layers, by the names of their weights without ".weight"

  double scale() const { return alpha / double(rank); }
  /// "rank 8, alpha 16, 24 layers".
  std::string describe() const;
  bool operator==(const AdapterConfig &) const = default;
};

/// Every linear layer of the model except its head.
std::vector<std::string> adaptableLayers(const ModelConfig &model);

/// A and B of each layer: `layer`.lora_A.weight, normal with the variance of PEFT's values, and `layer`.lora_B.weight,
/// zeros.
std::vector<ParameterSpec> adapterParameters(const ModelConfig &model, const AdapterConfig &adapter);

/// PEFT's folder of one adapter: adapter_config.json and adapter_model.safetensors.
class AdapterFolder {
public:
  /// Throws Error for anything but LoRA of some of `model`'s linear layers, in a form that the formula above
  /// covers; a missing, misshapen or unknown tensor is named.
  AdapterFolder(const std::string &folder, const ModelConfig &model);

  const AdapterConfig &config() const { return adapter; }
  /// The text of adapter_config.json, for a folder that is written from this one.
  const std::string &configText() const { return text; }
  /// What training here leaves out, one line each, for the user.
  const std::vector<std::string> &notes() const { return remarks; }
  /// Copies one of adapterParameters() as f32.
  void read(const ParameterSpec &parameter, std::span<float> out) const;

private:
  std::string text, prefix;
  std::vector<std::string> remarks;
  AdapterConfig adapter; // its initialiser also sets the members above
  std::unique_ptr<SafetensorsFile> file;
};

/// The paths that writeAdapterFolder replaces.
std::vector<std::string> adapterFolderFiles(const std::string &folder);

/// Writes both files into `folder`, which is made if it is missing. `tensors` are all of adapterParameters(); `base` is
/// the folder of the frozen weights. `configText` is the config of the adapter that training began with, or empty; keys
/// of it that training does not change are written again. Throws Error where the system cannot write.
void writeAdapterFolder(const std::string &folder, const ModelConfig &model, const AdapterConfig &adapter,
                        std::span<const NamedTensor> tensors, const std::string &base,
                        const std::string &configText = {});

} // namespace tcc::models
