#include "models/checkpoint.h"
#include "models/files.h"
#include "models/input_error.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace tcc::models {

namespace {

constexpr std::string_view weightsName = "model.safetensors", configName = "config.json";
constexpr std::string_view embeddingName = "wte.weight", transformersPrefix = "transformer.";

std::string inFolder(const std::string &folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

/// The path of the weights, with a hint for folders that hold them in another form.
std::string weightsPath(const std::string &folder) {
  std::string path = inFolder(folder, weightsName);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    for (const char *other : {"model.safetensors.index.json", "pytorch_model.bin"})
      if (std::filesystem::exists(inFolder(folder, other), ignored))
        throw InputError(
            fmt::format("{}: holds {}, but the weights are read from one model.safetensors", folder, other));
  return path;
}

/// Buffers and the tied head: no parameters, though files may hold them.
bool isPassedOver(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

bool isFloat(TensorDtype dtype) {
  return dtype == TensorDtype::F32 || dtype == TensorDtype::F16 || dtype == TensorDtype::BF16;
}

} // namespace

Gpt2Folder::Gpt2Folder(const std::string &folder)
    : gpt2(readConfig(inFolder(folder, configName), &remarks)), file(weightsPath(folder)) {
  if (file.find(std::string(transformersPrefix) + std::string(embeddingName)))
    prefix = transformersPrefix;
  std::set<std::string> known;
  for (const Gpt2Parameter &parameter : gpt2Parameters(gpt2)) {
    const TensorEntry &found = entry(parameter);
    known.insert(found.name);
    std::vector<int64_t> shape = found.shape;
    if (parameter.name == embeddingName && shape.size() == 2 && shape[0] > gpt2.vocab) {
      remarks.push_back(fmt::format("{}: {} padding rows of {} are dropped", file.path(), shape[0] - gpt2.vocab,
                                    inQuotes(found.name)));
      shape[0] = gpt2.vocab;
    }
    if (shape != parameter.shape)
      throw InputError(fmt::format("{}: tensor {} has shape [{}], but {} makes it [{}]", file.path(),
                                   inQuotes(found.name), fmt::join(found.shape, ", "), configName,
                                   fmt::join(parameter.shape, ", ")));
    if (!isFloat(found.dtype))
      throw InputError(fmt::format("{}: tensor {} is {}, only F32, F16 and BF16 are read as weights", file.path(),
                                   inQuotes(found.name), dtypeName(found.dtype)));
  }
  for (const TensorEntry &tensor : file.tensors())
    if (!known.count(tensor.name) && !isPassedOver(tensor.name))
      remarks.push_back(
          fmt::format("{}: tensor {} is not of this GPT-2 and is passed over", file.path(), inQuotes(tensor.name)));
}

const TensorEntry &Gpt2Folder::entry(const Gpt2Parameter &parameter) const {
  const TensorEntry *found = file.find(prefix + parameter.name);
  if (!found)
    throw InputError(fmt::format("{}: tensor {} is missing, {} asks for {} layers", file.path(),
                                 inQuotes(prefix + parameter.name), configName, gpt2.layers));
  return *found;
}

void Gpt2Folder::read(const Gpt2Parameter &parameter, std::span<float> out) const {
  // Padding rows of the embedding stand last, so the wanted values are always the first ones.
  TensorEntry wanted = entry(parameter);
  wanted.end = wanted.begin + parameter.elements() * dtypeBytes(wanted.dtype);
  file.readFloats(wanted, out);
}

void writeTensors(const std::string &path, std::span<const NamedTensor> tensors) {
  std::vector<TensorToWrite> list;
  for (const NamedTensor &tensor : tensors)
    list.push_back({tensor.name, TensorDtype::F32, tensor.shape, std::as_bytes(tensor.values)});
  writeSafetensors(path, list);
}

std::vector<std::string> gpt2FolderFiles(const std::string &folder) {
  return {inFolder(folder, weightsName), inFolder(folder, configName)};
}

void prepareFolder(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw InputError(fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  AtomicFile probe(inFolder(folder, configName)); // throws where files cannot be made there
}

void writeGpt2Folder(const std::string &folder, const Gpt2Config &config, std::span<const NamedTensor> tensors) {
  prepareFolder(folder);
  writeTensors(inFolder(folder, weightsName), tensors);
  writeConfig(inFolder(folder, configName), config);
}

} // namespace tcc::models
