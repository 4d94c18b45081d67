#include "models/checkpoint.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checksum.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace tcc::models {

namespace {

constexpr std::string_view configName = "config.json";
constexpr std::string_view headName = "lm_head.weight";

/// Buffers and the tied head: no parameters, though files may hold them.
bool isPassedOver(std::string_view name) {
  return name == headName || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

} // namespace

ModelFolder::ModelFolder(const std::string &folder)
    : model(readConfig(inFolder(folder, configName), &remarks, &originalConfig)), files(folder) {
  std::set<std::string> known;
  for (const ParameterSpec &parameter : model.parameters()) {
    const auto [file, found] = tensor(parameter);
    known.insert(found->name);
    std::vector<int64_t> shape = found->shape;
    const bool byToken = parameter.name == model.embeddingName() || parameter.name == headName;
    if (byToken && shape.size() == 2 && shape[0] > model.vocabulary()) {
      remarks.push_back(fmt::format("{}: {} padding rows of {} are dropped", file->path(),
                                    shape[0] - model.vocabulary(), inQuotes(found->name)));
      shape[0] = model.vocabulary();
    }
    if (shape != parameter.shape)
      throw Error(fmt::format("{}: tensor {} has shape [{}], but {} makes it [{}]", file->path(), inQuotes(found->name),
                              fmt::join(found->shape, ", "), configName, fmt::join(parameter.shape, ", ")));
    if (!isReadAsFloat(found->dtype))
      throw Error(fmt::format("{}: tensor {} is {}, only F32, F16 and BF16 are read as weights", file->path(),
                              inQuotes(found->name), dtypeName(found->dtype)));
  }
  for (const auto &[file, found] : files.tensors())
    if (!known.count(found->name) && !isPassedOver(found->name))
      remarks.push_back(
          fmt::format("{}: tensor {} is not of this model and is passed over", file->path(), inQuotes(found->name)));
  checkHead();
}

/// The model ties its head to `wte`; a head with weights of its own would be dropped without a word.
void ModelFolder::checkHead() const {
  const WeightFiles::Tensor head = files.find(headName);
  if (!head || !model.tied())
    return;
  const ParameterSpec embedding = model.parameters().front();
  std::vector<float> tied(size_t(embedding.elements())), own(tied.size());
  read(embedding, tied);
  TensorEntry wanted = *head.entry;
  wanted.end = wanted.begin + embedding.elements() * dtypeBytes(wanted.dtype);
  const bool large =
      wanted.shape.size() == 2 && wanted.shape[0] >= embedding.shape[0] && wanted.shape[1] == embedding.shape[1];
  if (large)
    head.file->readFloats(wanted, own);
  if (!large || std::memcmp(tied.data(), own.data(), tied.size() * sizeof(float)) != 0)
    throw Error(fmt::format("{}: tensor {} is not {}, though `tie_word_embeddings` is true: this model's head is "
                            "tied; take the tensor out of the file to go on without it",
                            head.file->path(), inQuotes(headName), inQuotes(sourceName(embedding))));
}

/// Files of the same model differ in a prefix: transformers writes it, others leave it out or add it.
std::string ModelFolder::sourceName(const ParameterSpec &parameter) const {
  const std::string prefix = model.prefix(), &name = parameter.name;
  if (files.find(name))
    return name;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : prefix + name;
}

WeightFiles::Tensor ModelFolder::tensor(const ParameterSpec &parameter) const {
  const WeightFiles::Tensor found = files.find(sourceName(parameter));
  if (!found)
    throw Error(fmt::format("{}: tensor {} is missing, {} asks for {} layers", files.path(), inQuotes(parameter.name),
                            configName, model.layers()));
  return found;
}

void ModelFolder::read(const ParameterSpec &parameter, std::span<float> out) const {
  // Padding rows of the embedding stand last, so the wanted values are always the first ones.
  const auto [file, entry] = tensor(parameter);
  TensorEntry wanted = *entry;
  wanted.end = wanted.begin + parameter.elements() * dtypeBytes(wanted.dtype);
  file->readFloats(wanted, out);
}

std::string ModelFolder::fingerprint() const {
  std::string sums;
  for (const ParameterSpec &parameter : model.parameters()) {
    const auto [file, entry] = tensor(parameter);
    sums += checksumOf(file->bytes(*entry));
  }
  return checksumOf(std::as_bytes(std::span(sums)));
}

void writeTensors(const std::string &path, std::span<const NamedTensor> tensors) {
  std::vector<TensorToWrite> list;
  for (const NamedTensor &tensor : tensors)
    list.push_back({tensor.name, TensorDtype::F32, tensor.shape, std::as_bytes(tensor.values)});
  writeSafetensors(path, list);
}

std::vector<std::string> modelFolderFiles(const std::string &folder) {
  std::vector<std::string> paths = tokenizerFilePaths(folder);
  paths.insert(paths.begin(), {inFolder(folder, weightsName), inFolder(folder, configName)});
  return paths;
}

void prepareFolder(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  AtomicFile probe(inFolder(folder, configName)); // throws where files cannot be made there
}

void writeModelFolder(const std::string &folder, const ModelConfig &config, std::span<const NamedTensor> tensors,
                      const std::string &configText, const TokenizerFiles &tokenizer) {
  prepareFolder(folder);
  writeTokenizerFiles(folder, tokenizer);
  writeTensors(inFolder(folder, weightsName), tensors);
  writeConfig(inFolder(folder, configName), config, configText, tokenizer);
}

} // namespace tcc::models
