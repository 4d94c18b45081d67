#include "models/model_config.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"
#include "models/tokenizer_files.h"
#include "runtime/overload.h"

#include <algorithm>
#include <fmt/format.h>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;
using runtime::Overload;

/// Rates of dropout under names that the kind does not have; those of heads that classify are none of a language
/// model's.
void noteUnusedDropout(const ConfigReader &reader, std::initializer_list<std::string_view> used,
                       std::vector<std::string> *notes) {
  for (const auto &[key, value] : reader.json.items()) {
    const bool isRate = key.find("drop") != std::string::npos && value.is_number() && value != 0;
    const bool isOther = key.starts_with("summary_") || key.starts_with("classifier_");
    if (notes && isRate && !isOther && std::ranges::find(used, key) == used.end())
      notes->push_back(fmt::format("{}: `{}` is {}, which training here leaves out", reader.path, key, value.dump()));
  }
}

} // namespace

int64_t ModelConfig::layers() const {
  return std::visit([](const auto &config) { return config.layers; }, kind);
}

int64_t ModelConfig::vocabulary() const {
  return std::visit([](const auto &config) { return config.vocab; }, kind);
}

int64_t ModelConfig::positions() const {
  return std::visit([](const auto &config) { return config.sequence; }, kind);
}

int64_t ModelConfig::keyValueHeads() const {
  return std::visit(Overload{[](const Gpt2Config &config) { return config.heads; },
                             [](const LlamaConfig &config) { return config.keyValueHeads; },
                             [](const ModernConfig &config) { return config.heads; }},
                    kind);
}

int64_t ModelConfig::headSize() const {
  return std::visit(Overload{[](const Gpt2Config &config) { return config.width / config.heads; },
                             [](const LlamaConfig &config) { return config.headSize; },
                             [](const ModernConfig &config) { return config.width / config.heads; }},
                    kind);
}

std::vector<ParameterSpec> ModelConfig::parameters() const {
  return std::visit(Overload{[](const Gpt2Config &config) { return gpt2Parameters(config); },
                             [](const LlamaConfig &config) { return llamaParameters(config); },
                             [](const ModernConfig &config) { return modernParameters(config); }},
                    kind);
}

std::string ModelConfig::embeddingName() const {
  return std::visit(Overload{[](const Gpt2Config &) { return "wte.weight"; },
                             [](const LlamaConfig &) { return "model.embed_tokens.weight"; },
                             [](const ModernConfig &) { return "wte.weight"; }},
                    kind);
}

bool ModelConfig::storesInputsFirst() const {
  return std::visit(Overload{[](const Gpt2Config &) { return true; }, [](const LlamaConfig &) { return false; },
                             [](const ModernConfig &) { return false; }},
                    kind);
}

bool ModelConfig::tied() const {
  return std::visit(Overload{[](const Gpt2Config &config) { return config.tied; },
                             [](const LlamaConfig &config) { return config.tied; },
                             [](const ModernConfig &) { return false; }},
                    kind);
}

DropoutRates ModelConfig::dropout() const {
  return std::visit(
      Overload{[](const Gpt2Config &config) { return config.dropout; },
               [](const LlamaConfig &config) { return DropoutRates{.attention = config.attentionDropout}; },
               [](const ModernConfig &) { return DropoutRates{}; }},
      kind);
}

bool ModelConfig::setDropout(double rate) {
  return std::visit(Overload{[&](Gpt2Config &config) {
                               config.dropout = {rate, rate, rate};
                               return true;
                             },
                             [&](LlamaConfig &config) {
                               config.attentionDropout = rate;
                               return true;
                             },
                             [](ModernConfig &) { return false; }},
                    kind);
}

std::string ModelConfig::prefix() const {
  return std::visit(Overload{[](const Gpt2Config &) { return "transformer."; },
                             [](const LlamaConfig &) { return "model."; },
                             [](const ModernConfig &) { return "transformer."; }},
                    kind);
}

std::string ModelConfig::describe() const {
  return std::visit(
      Overload{[](const Gpt2Config &c) {
                 return fmt::format("gpt2: {} layers, {} heads, width {}, {} positions, vocabulary {}{}{}", c.layers,
                                    c.heads, c.width, c.sequence, c.vocab, c.tied ? "" : ", untied",
                                    c.separate ? ", separate queries, keys and values" : "");
               },
               [](const LlamaConfig &c) {
                 const char *names[] = {"llama", "qwen2", "qwen3"};
                 return fmt::format(
                     "{}: {} layers, {} heads of {} with {} keys and values, width {}, inner width {}, {} "
                     "positions, vocabulary {}{}",
                     names[size_t(c.kind)], c.layers, c.heads, c.headSize, c.keyValueHeads, c.width, c.inner,
                     c.sequence, c.vocab, c.tied ? ", tied" : "");
               },
               [](const ModernConfig &c) {
                 return fmt::format("modern: {} layers, {} heads, width {}, {} positions, vocabulary {}", c.layers,
                                    c.heads, c.width, c.sequence, c.vocab);
               }},
      kind);
}

std::optional<ModelConfig> modelPreset(std::string_view name) {
  if (const auto config = gpt2Preset(name))
    return *config;
  if (const auto config = llamaPreset(name))
    return *config;
  if (const auto config = modernPreset(name))
    return *config;
  return std::nullopt;
}

std::vector<std::string> modelPresetNames() {
  return {"baby",        "char",        "gpt2",       "gpt2-medium", "gpt2-large", "gpt2-xl",
          "script-baby", "script-163m", "llama-baby", "llama-160m",  "modern-124m"};
}

void checkConfig(const ModelConfig &config) {
  std::visit([](const auto &kind) { checkConfig(kind); }, config.kind);
}

ModelConfig readConfig(const std::string &path, std::vector<std::string> *notes, std::string *text) {
  const MappedFile file(path);
  const Json json = parseConfigFile(file);
  if (text)
    *text = file.text();
  const ConfigReader reader{path, json};
  const std::string type = reader.text("model_type", "gpt2");
  if (type == "gpt2" || type == separateGpt2Type) {
    noteUnusedDropout(reader, {"embd_pdrop", "attn_pdrop", "resid_pdrop"}, notes);
    return readGpt2Config(reader);
  }
  if (type == "llama" || type == "qwen2" || type == "qwen3") {
    noteUnusedDropout(reader, {"attention_dropout"}, notes);
    return readLlamaConfig(reader);
  }
  if (type == "tcc_modern_gpt") {
    noteUnusedDropout(reader, {}, notes);
    return readModernConfig(reader);
  }
  throw Error(fmt::format("{}: `model_type` is {}, one of `gpt2`, `llama`, `qwen2`, `qwen3`, `tcc_modern_gpt` and "
                          "`{}` is expected",
                          path, inQuotes(type), separateGpt2Type));
}

namespace {

/// Whether an id, or each of a list, is one of the vocabulary; transformers takes 50256, 1 or 2 for an absent one.
bool isOfVocabulary(const Json &ids, int64_t vocabulary) {
  const auto isOne = [&](const Json &id) { return id.is_number_unsigned() && id < uint64_t(vocabulary); };
  return ids.is_array() ? std::ranges::all_of(ids, isOne) : isOne(ids);
}

/// bos_token_id and eos_token_id: null where no token begins or ends a text.
void setEnds(Json &json, const ModelConfig &config, const TokenizerFiles &tokenizer) {
  constexpr int32_t gpt2Separator = 50256; // of data that are tokens already
  const bool isGpt2Data =
      tokenizer.files.empty() && config.vocabulary() > gpt2Separator && std::holds_alternative<Gpt2Config>(config.kind);
  for (const auto &[key, id] :
       {std::pair("bos_token_id", tokenizer.ends.begin), std::pair("eos_token_id", tokenizer.ends.end)}) {
    const auto present = json.find(key);
    if (!tokenizer.replaces && present != json.end() &&
        (present->is_null() || isOfVocabulary(*present, config.vocabulary())))
      continue;
    const std::optional<int32_t> known = isGpt2Data ? gpt2Separator : id;
    json[key] = known && *known < config.vocabulary() ? Json(*known) : Json();
  }
}

} // namespace

void writeConfig(const std::string &path, const ModelConfig &config, const std::string &original,
                 const TokenizerFiles &tokenizer) {
  const ConfigKeys keys = std::visit(Overload{[](const Gpt2Config &kind) { return gpt2ConfigKeys(kind); },
                                              [](const LlamaConfig &kind) { return llamaConfigKeys(kind); },
                                              [](const ModernConfig &kind) { return modernConfigKeys(kind); }},
                                     config.kind);
  Json json = original.empty() ? keys.usual : Json::parse(original);
  json.update(keys.own);
  setEnds(json, config, tokenizer);
  // transformers has renamed the key; a file has either.
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
  AtomicFile file(path);
  file.write(json.dump(2) + "\n");
  file.commit();
}

void writeConfig(const std::string &path, const ModelConfig &config) {
  writeConfig(path, config, {}, {});
}

int64_t parameterCount(const ModelConfig &config) {
  int64_t count = 0;
  for (const ParameterSpec &parameter : config.parameters())
    count += parameter.elements();
  return count;
}

/// The values of matrices that tokens are multiplied with: rows of an embedding that is not the head are only read.
static int64_t multipliedCount(const ModelConfig &config) {
  int64_t count = 0;
  for (const ParameterSpec &parameter : config.parameters()) {
    const bool isEmbedding = parameter.name == "wte.weight" || parameter.name == "model.embed_tokens.weight";
    if (parameter.shape.size() >= 2 && parameter.name != "wpe.weight" && (!isEmbedding || config.tied()))
      count += parameter.elements();
  }
  return count;
}

double trainingFlopsPerToken(const ModelConfig &config, int64_t length) {
  const int64_t width = std::visit(Overload{[](const Gpt2Config &kind) { return kind.width; },
                                            [](const LlamaConfig &kind) { return kind.heads * kind.headSize; },
                                            [](const ModernConfig &kind) { return kind.width; }},
                                   config.kind); // of all heads
  return 6.0 * double(multipliedCount(config)) + 6.0 * double(config.layers()) * double(width) * double(length);
}

} // namespace tcc::models
