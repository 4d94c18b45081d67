#include "models/adapter.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view weightSuffix = ".weight", suffixA = ".lora_A.weight", suffixB = ".lora_B.weight";
constexpr const char *adapterConfigName = "adapter_config.json", *adapterWeightsName = "adapter_model.safetensors";
constexpr int64_t largestRank = 1 << 14;

/// What stands before a parameter's name in PEFT's files.
std::string filePrefix(const ModelConfig &model) {
  const std::string prefix = model.prefix();
  const bool has = model.embeddingName().starts_with(prefix);
  return "base_model.model." + (has ? "" : prefix);
}

/// [in, out] of a linear layer.
std::pair<int64_t, int64_t> sizesOf(const ModelConfig &model, const ParameterSpec &weight) {
  if (model.storesInputsFirst())
    return {weight.shape[0], weight.shape[1]};
  return {weight.shape[1], weight.shape[0]};
}

bool isAdaptable(const ModelConfig &model, const ParameterSpec &parameter) {
  return parameter.shape.size() == 2 && parameter.name.ends_with(weightSuffix) &&
         parameter.name != model.embeddingName() && parameter.name != "lm_head.weight" &&
         parameter.name != "wpe.weight";
}

std::string layerOf(const ParameterSpec &weight) {
  return weight.name.substr(0, weight.name.size() - weightSuffix.size());
}

std::string lastPart(const std::string &layer) {
  return layer.substr(layer.rfind('.') + 1);
}

/// PEFT's target_modules: the last parts of the names where those mean just these layers, else whole names.
Json targetModules(const ModelConfig &model, const std::string &prefix, const std::vector<std::string> &layers) {
  std::set<std::string> kinds;
  for (const std::string &layer : layers)
    kinds.insert(lastPart(layer));
  const std::vector<std::string> all = adaptableLayers(model);
  const auto meant =
      std::count_if(all.begin(), all.end(), [&](const std::string &layer) { return kinds.contains(lastPart(layer)); });
  if (size_t(meant) == layers.size())
    return kinds;
  Json names = Json::array();
  for (const std::string &layer : layers)
    names.push_back((prefix + layer).substr(std::string_view("base_model.model.").size()));
  return names;
}

/// Refuses what would change the formula.
void checkFeatures(const ConfigReader &reader) {
  const std::string type = reader.text("peft_type", "");
  if (type != "LORA")
    throw Error(fmt::format("{}: `peft_type` is {}, only `LORA` is here", reader.path, inQuotes(type)));
  for (const char *key : {"use_rslora", "use_dora", "use_qalora", "lora_bias"})
    reader.expect(key, false);
  for (const char *key :
       {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication", "trainable_token_indices"})
    if (const Json *value = reader.value(key); value && !value->empty())
      throw Error(fmt::format("{}: `{}` is {}, adapters here have one rank and one alpha and nothing beside",
                              reader.path, key, ConfigReader::shown(*value)));
  const std::string bias = reader.text("bias", "none");
  if (bias != "none")
    throw Error(fmt::format("{}: `bias` is {}, only `none` is here", reader.path, inQuotes(bias)));
}

} // namespace

std::string AdapterConfig::describe() const {
  return fmt::format("rank {}, alpha {}, {} layers", rank, alpha, layers.size());
}

std::vector<std::string> adaptableLayers(const ModelConfig &model) {
  std::vector<std::string> layers;
  for (const ParameterSpec &parameter : model.parameters())
    if (isAdaptable(model, parameter))
      layers.push_back(layerOf(parameter));
  return layers;
}

std::vector<ParameterSpec> adapterParameters(const ModelConfig &model, const AdapterConfig &adapter) {
  const std::set<std::string> wanted(adapter.layers.begin(), adapter.layers.end());
  std::vector<ParameterSpec> list;
  for (const ParameterSpec &parameter : model.parameters()) {
    if (!isAdaptable(model, parameter) || !wanted.contains(layerOf(parameter)))
      continue;
    const auto [in, out] = sizesOf(model, parameter);
    list.push_back(
        matrixSpec(layerOf(parameter) + std::string(suffixA), adapter.rank, in, 1 / std::sqrt(3.0 * double(in))));
    list.push_back(matrixSpec(layerOf(parameter) + std::string(suffixB), out, adapter.rank, 0));
  }
  return list;
}

AdapterFolder::AdapterFolder(const std::string &folder, const ModelConfig &model) : prefix(filePrefix(model)) {
  const std::string configPath = inFolder(folder, adapterConfigName), path = inFolder(folder, adapterWeightsName);
  const MappedFile config(configPath);
  const Json json = parseConfigFile(config);
  text = config.text();
  const ConfigReader reader{configPath, json};
  checkFeatures(reader);
  adapter.rank = reader.size("r");
  if (adapter.rank > largestRank)
    throw Error(fmt::format("{}: `r` is {}, at most {} is expected", configPath, adapter.rank, largestRank));
  adapter.alpha = reader.number("lora_alpha", 8); // PEFT's default
  if (const double rate = readDropoutRate(reader, "lora_dropout"); rate > 0)
    remarks.push_back(fmt::format("{}: `lora_dropout` is {}, which training here leaves out", configPath, rate));
  file = std::make_unique<SafetensorsFile>(path);

  // The layers are those that the file has tensors of; every tensor must belong to one.
  std::set<std::string> known;
  for (const std::string &layer : adaptableLayers(model))
    if (file->find(prefix + layer + std::string(suffixA)) || file->find(prefix + layer + std::string(suffixB)))
      adapter.layers.push_back(layer);
  for (const ParameterSpec &parameter : adapterParameters(model, adapter)) {
    known.insert(prefix + parameter.name);
    const TensorEntry *entry = file->find(prefix + parameter.name);
    if (!entry)
      throw Error(fmt::format("{}: tensor {} is missing", path, inQuotes(prefix + parameter.name)));
    if (entry->shape != parameter.shape || !isReadAsFloat(entry->dtype))
      throw Error(fmt::format("{}: tensor {} is {} [{}], but rank {} in this model makes it floats [{}]", path,
                              inQuotes(entry->name), dtypeName(entry->dtype), fmt::join(entry->shape, ", "),
                              adapter.rank, fmt::join(parameter.shape, ", ")));
  }
  for (const TensorEntry &entry : file->tensors())
    if (!known.contains(entry.name))
      throw Error(fmt::format("{}: tensor {} is of no linear layer of this model", path, inQuotes(entry.name)));
  if (adapter.layers.empty())
    throw Error(fmt::format("{}: the adapter has no layer", path));
}

void AdapterFolder::read(const ParameterSpec &parameter, std::span<float> out) const {
  file->readFloats(*file->find(prefix + parameter.name), out);
}

std::vector<std::string> adapterFolderFiles(const std::string &folder) {
  return {inFolder(folder, adapterWeightsName), inFolder(folder, adapterConfigName)};
}

void writeAdapterFolder(const std::string &folder, const ModelConfig &model, const AdapterConfig &adapter,
                        std::span<const NamedTensor> tensors, const std::string &base, const std::string &configText) {
  prepareFolder(folder);
  const std::string prefix = filePrefix(model);
  std::vector<NamedTensor> named(tensors.begin(), tensors.end());
  for (NamedTensor &tensor : named)
    tensor.name = prefix + tensor.name;
  writeTensors(inFolder(folder, adapterWeightsName), named);
  Json json = configText.empty() ? Json{{"task_type", "CAUSAL_LM"}, {"inference_mode", true}, {"lora_dropout", 0.0}}
                                 : Json::parse(configText);
  json.update({{"peft_type", "LORA"},
               {"base_model_name_or_path", base},
               {"r", adapter.rank},
               {"lora_alpha", adapter.alpha},
               {"bias", "none"},
               {"fan_in_fan_out", model.storesInputsFirst()},
               {"target_modules", targetModules(model, prefix, adapter.layers)}});
  AtomicFile file(inFolder(folder, adapterConfigName));
  file.write(json.dump(2) + "\n");
  file.commit();
}

} // namespace tcc::models
