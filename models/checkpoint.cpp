#include "models/checkpoint.h"
#include "models/files.h"
#include "models/input_error.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace tcc::models {

namespace {

constexpr std::string_view weightsName = "model.safetensors", configName = "config.json";
constexpr std::string_view embeddingName = "wte.weight", transformersPrefix = "transformer.",
                           headName = "lm_head.weight";

std::string inFolder(const std::string &folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

/// Buffers and the tied head: no parameters, though files may hold them.
bool isPassedOver(std::string_view name) {
  return name == headName || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

bool isFloat(TensorDtype dtype) {
  return dtype == TensorDtype::F32 || dtype == TensorDtype::F16 || dtype == TensorDtype::BF16;
}

} // namespace

Gpt2Folder::Gpt2Folder(const std::string &folder)
    : gpt2(readConfig(inFolder(folder, configName), &remarks, &originalConfig)), files(folder) {
  if (files.find(std::string(transformersPrefix) + std::string(embeddingName)))
    prefix = transformersPrefix;
  std::set<std::string> known;
  for (const Gpt2Parameter &parameter : gpt2Parameters(gpt2)) {
    const auto [file, found] = tensor(parameter);
    known.insert(found->name);
    std::vector<int64_t> shape = found->shape;
    if (parameter.name == embeddingName && shape.size() == 2 && shape[0] > gpt2.vocab) {
      remarks.push_back(fmt::format("{}: {} padding rows of {} are dropped", file->path(), shape[0] - gpt2.vocab,
                                    inQuotes(found->name)));
      shape[0] = gpt2.vocab;
    }
    if (shape != parameter.shape)
      throw InputError(fmt::format("{}: tensor {} has shape [{}], but {} makes it [{}]", file->path(),
                                   inQuotes(found->name), fmt::join(found->shape, ", "), configName,
                                   fmt::join(parameter.shape, ", ")));
    if (!isFloat(found->dtype))
      throw InputError(fmt::format("{}: tensor {} is {}, only F32, F16 and BF16 are read as weights", file->path(),
                                   inQuotes(found->name), dtypeName(found->dtype)));
  }
  for (const auto &[file, found] : files.tensors())
    if (!known.count(found->name) && !isPassedOver(found->name))
      remarks.push_back(
          fmt::format("{}: tensor {} is not of this GPT-2 and is passed over", file->path(), inQuotes(found->name)));
  checkHead();
}

/// The model ties its head to `wte`; a head with weights of its own would be dropped without a word.
void Gpt2Folder::checkHead() const {
  const WeightFiles::Tensor head = files.find(headName);
  if (!head)
    return;
  const Gpt2Parameter embedding = gpt2Parameters(gpt2).front();
  std::vector<float> tied(size_t(embedding.elements())), own(tied.size());
  read(embedding, tied);
  TensorEntry wanted = *head.entry;
  wanted.end = wanted.begin + embedding.elements() * dtypeBytes(wanted.dtype);
  const bool large = wanted.shape.size() == 2 && wanted.shape[0] >= gpt2.vocab && wanted.shape[1] == gpt2.width;
  if (large)
    head.file->readFloats(wanted, own);
  if (!large || std::memcmp(tied.data(), own.data(), tied.size() * sizeof(float)) != 0)
    throw InputError(fmt::format("{}: tensor {} is not {}, though `tie_word_embeddings` is true: this GPT-2's head is "
                                 "tied; take the tensor out of the file to go on without it",
                                 head.file->path(), inQuotes(headName), inQuotes(prefix + embedding.name)));
}

WeightFiles::Tensor Gpt2Folder::tensor(const Gpt2Parameter &parameter) const {
  const WeightFiles::Tensor found = files.find(prefix + parameter.name);
  if (!found)
    throw InputError(fmt::format("{}: tensor {} is missing, {} asks for {} layers", files.path(),
                                 inQuotes(prefix + parameter.name), configName, gpt2.layers));
  return found;
}

void Gpt2Folder::read(const Gpt2Parameter &parameter, std::span<float> out) const {
  // Padding rows of the embedding stand last, so the wanted values are always the first ones.
  const auto [file, entry] = tensor(parameter);
  TensorEntry wanted = *entry;
  wanted.end = wanted.begin + parameter.elements() * dtypeBytes(wanted.dtype);
  file->readFloats(wanted, out);
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

void writeGpt2Folder(const std::string &folder, const Gpt2Config &config, std::span<const NamedTensor> tensors,
                     const std::string &configText) {
  prepareFolder(folder);
  writeTensors(inFolder(folder, weightsName), tensors);
  writeConfig(inFolder(folder, configName), config, configText);
}

} // namespace tcc::models
