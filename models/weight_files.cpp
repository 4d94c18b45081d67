#include "models/weight_files.h"
#include "frontend/quotes.h"
#include "models/json_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace tcc::models {

namespace {

constexpr std::string_view indexName = "model.safetensors.index.json";
constexpr int64_t indexLimit = int64_t(64) << 20;
constexpr size_t shardLimit = 4096; ///< each stays open and mapped

bool exists(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Tensor names by the shard that the index puts them in.
std::map<std::string, std::vector<std::string>> readIndex(const std::string &path) {
  const auto json =
      parseJsonFile<nlohmann::json>(MappedFile(path), {.bytes = indexLimit, .nesting = 4, .kind = "an index"});
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    throw Error(fmt::format("{}: an object with `weight_map` is expected", path));
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto &[tensor, shard] : map->items()) {
    if (!shard.is_string())
      throw Error(fmt::format("{}: the shard of {} is no string", path, inQuotes(tensor)));
    const auto name = shard.get<std::string>();
    // An index from elsewhere opens nothing outside of its folder.
    if (name.find('/') != std::string::npos || !name.ends_with(".safetensors"))
      throw Error(fmt::format("{}: shard {} of {} is no name of a .safetensors file in this folder", path,
                              inQuotes(name), inQuotes(tensor)));
    shards[name].push_back(tensor);
  }
  if (shards.size() > shardLimit)
    throw Error(fmt::format("{}: {} shards, at most {} are read", path, shards.size(), shardLimit));
  return shards;
}

} // namespace

WeightFiles::WeightFiles(const std::string &folder) : mainPath(inFolder(folder, weightsName)) {
  const bool whole = exists(mainPath);
  if (!whole && exists(inFolder(folder, indexName)))
    openShards(folder);
  else if (!whole && exists(inFolder(folder, "pytorch_model.bin")))
    throw Error(fmt::format(
        "{0}: holds pytorch_model.bin, which is never unpickled here; model.safetensors is read. To convert it: "
        "python3 "
        "-c 'import transformers as t; t.AutoModelForCausalLM.from_pretrained(\"{0}\").save_pretrained(\"{0}\")'",
        folder));
  else
    files.push_back(std::make_unique<SafetensorsFile>(mainPath));
}

void WeightFiles::openShards(const std::string &folder) {
  mainPath = inFolder(folder, indexName);
  std::map<std::string, std::string> owner;
  for (const auto &[shard, names] : readIndex(mainPath)) {
    const SafetensorsFile &file = *files.emplace_back(std::make_unique<SafetensorsFile>(inFolder(folder, shard)));
    for (const std::string &name : names)
      if (!file.find(name))
        throw Error(
            fmt::format("{}: tensor {} is missing, {} says that it is here", file.path(), inQuotes(name), indexName));
    for (const TensorEntry &tensor : file.tensors())
      if (auto [at, fresh] = owner.try_emplace(tensor.name, shard); !fresh)
        throw Error(fmt::format("{}: tensor {} stands in {} too", file.path(), inQuotes(tensor.name), at->second));
  }
}

WeightFiles::Tensor WeightFiles::find(std::string_view name) const {
  for (const auto &file : files)
    if (const TensorEntry *entry = file->find(name))
      return {file.get(), entry};
  return {};
}

std::vector<WeightFiles::Tensor> WeightFiles::tensors() const {
  std::vector<Tensor> list;
  for (const auto &file : files)
    for (const TensorEntry &entry : file->tensors())
      list.push_back({file.get(), &entry});
  return list;
}

} // namespace tcc::models
