// The weights of a Hugging Face folder: one model.safetensors, or shards that an index lists.
#pragma once
#include "frontend/safetensors.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// The one file of weights in a folder.
inline constexpr std::string_view weightsName = "model.safetensors";

/// All tensors of a folder's safetensors files, as if they were in one.
class WeightFiles {
public:
  /// Opens `folder`/model.safetensors, or, where there is none, the shards of model.safetensors.index.json (at most
  /// 64 MiB). Throws Error naming the file: a folder with neither (with a way out where it holds
  /// pytorch_model.bin), a damaged index, a shard that lacks what the index says or holds a tensor of another shard.
  explicit WeightFiles(const std::string &folder);

  struct Tensor {
    const SafetensorsFile *file = nullptr; ///< null: there is no tensor of this name
    const TensorEntry *entry = nullptr;
    explicit operator bool() const { return file; }
  };
  Tensor find(std::string_view name) const;
  /// Every tensor, file after file.
  std::vector<Tensor> tensors() const;
  /// The file that a message about the whole is about: the weights, or the index.
  const std::string &path() const { return mainPath; }

private:
  void openShards(const std::string &folder);

  std::string mainPath;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
};

} // namespace tcc::models
