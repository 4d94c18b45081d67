#include "models/gpt2_config.h"
#include "models/counter_random.h"
#include "models/files.h"
#include "models/input_error.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace tcc::models {

namespace {

constexpr int64_t sizeLimit = int64_t(1) << 24;
constexpr int64_t layerLimit = 4096; // each makes a list of names and ops
constexpr double elementLimit = 0x1p40;
constexpr int64_t configFileLimit = 1 << 20;
constexpr int nestingLimit = 16;

struct Preset {
  std::string_view name;
  Gpt2Config config;
};
constexpr Preset presets[] = {
    {"baby", {.layers = 4, .heads = 4, .width = 128, .sequence = 64, .vocab = 256}},
    {"char", {.layers = 6, .heads = 6, .width = 384, .sequence = 256, .vocab = 256}},
    {"gpt2", {.layers = 12, .heads = 12, .width = 768, .sequence = 1024, .vocab = 50257}},
};
constexpr std::string_view presetNames[] = {presets[0].name, presets[1].name, presets[2].name};

using Json = nlohmann::ordered_json;

Json parseConfigText(const MappedFile &file) {
  if (file.size() > configFileLimit)
    throw InputError(
        fmt::format("{}: {} bytes, a config.json has at most {}", file.path(), file.size(), configFileLimit));
  auto refuseNesting = [&](int depth, Json::parse_event_t, Json &) {
    if (depth > nestingLimit)
      throw InputError(fmt::format("{}: objects nested deeper than {}", file.path(), nestingLimit));
    return true;
  };
  const char *text = reinterpret_cast<const char *>(file.data());
  try {
    Json json = Json::parse(text, text + file.size(), refuseNesting);
    if (!json.is_object())
      throw InputError(fmt::format("{}: not a JSON object", file.path()));
    return json;
  } catch (const Json::parse_error &error) {
    throw InputError(fmt::format("{}: byte {}: not valid JSON here", file.path(), error.byte));
  }
}

/// Reads keys of a configuration; absent and null mean "the default of transformers".
struct ConfigReader {
  const std::string &path;
  const Json &json;

  const Json *value(const char *key) const {
    auto at = json.find(key);
    return at == json.end() || at->is_null() ? nullptr : &*at;
  }

  int64_t size(const char *key) const {
    const Json *found = value(key);
    if (!found)
      throw InputError(fmt::format("{}: `{}` is missing, a GPT-2 needs it", path, key));
    if (!found->is_number_unsigned() || *found < uint64_t(1) || *found > uint64_t(sizeLimit))
      throw InputError(
          fmt::format("{}: `{}` is {}, a whole number from 1 to {} is expected", path, key, shown(*found), sizeLimit));
    return found->get<int64_t>();
  }

  std::string text(const char *key, const char *absent) const {
    const Json *found = value(key);
    if (found && !found->is_string())
      throw InputError(fmt::format("{}: `{}` is {}, a string is expected", path, key, shown(*found)));
    return found ? found->get<std::string>() : absent;
  }

  double number(const char *key, double absent) const {
    const Json *found = value(key);
    if (found && !found->is_number())
      throw InputError(fmt::format("{}: `{}` is {}, a number is expected", path, key, shown(*found)));
    return found ? found->get<double>() : absent;
  }

  /// Refuses a switch that is not in its one supported position.
  void expect(const char *key, bool supported) const {
    const Json *found = value(key);
    if (found && *found != supported)
      throw InputError(fmt::format("{}: `{}` is {}, only {} is supported", path, key, shown(*found), supported));
  }

  static std::string shown(const Json &value) {
    return inQuotes(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }
};

void refuseOtherModels(const ConfigReader &reader) {
  const std::string &path = reader.path;
  if (std::string type = reader.text("model_type", "gpt2"); type != "gpt2")
    throw InputError(fmt::format("{}: `model_type` is {}, only `gpt2` is supported", path, inQuotes(type)));
  std::string activation = reader.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    throw InputError(fmt::format("{}: `activation_function` is {}, only the tanh form of GELU is supported (`gelu_new` "
                                 "or `gelu_pytorch_tanh`)",
                                 path, inQuotes(activation)));
  reader.expect("tie_word_embeddings", true);
  reader.expect("scale_attn_weights", true);
  reader.expect("scale_attn_by_inverse_layer_idx", false);
  reader.expect("add_cross_attention", false);
  if (reader.value("n_inner") && reader.size("n_inner") != 4 * reader.size("n_embd"))
    throw InputError(fmt::format("{}: `n_inner` is {}, only 4 times `n_embd` ({}) is supported", path,
                                 reader.size("n_inner"), 4 * reader.size("n_embd")));
}

Gpt2Parameter vectorParameter(std::string name, int64_t size, InitialValue initial) {
  return {std::move(name), {size}, false, initial, 0};
}
Gpt2Parameter matrixParameter(std::string name, int64_t rows, int64_t columns, double deviation) {
  return {std::move(name), {rows, columns}, true, InitialValue::Normal, deviation};
}

void fillNormal(uint64_t seed, uint64_t stream, double deviation, std::span<float> out, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    out[i] = float(deviation * normalBits(randomBits(seed, stream, i)));
}

} // namespace

std::optional<Gpt2Config> gpt2Preset(std::string_view name) {
  for (const Preset &preset : presets)
    if (preset.name == name)
      return preset.config;
  return std::nullopt;
}

std::span<const std::string_view> gpt2PresetNames() {
  return presetNames;
}

void checkConfig(const Gpt2Config &config) {
  const std::pair<const char *, int64_t> sizes[] = {{"layers", config.layers},
                                                    {"heads", config.heads},
                                                    {"width", config.width},
                                                    {"sequence", config.sequence},
                                                    {"vocab", config.vocab}};
  if (config.layers > layerLimit)
    throw InputError(fmt::format("layers is {}, it must be from 1 to {}", config.layers, layerLimit));
  for (auto [name, value] : sizes)
    if (value < 1 || value > sizeLimit)
      throw InputError(fmt::format("{} is {}, it must be from 1 to {}", name, value, sizeLimit));
  if (config.width % config.heads != 0)
    throw InputError(fmt::format("width {} is not a multiple of heads {}", config.width, config.heads));
  if (!(config.layerNormEpsilon > 0 && config.layerNormEpsilon < 1))
    throw InputError(fmt::format("layer norm epsilon is {}, it must be between 0 and 1", config.layerNormEpsilon));
  double width = double(config.width);
  double elements = double(config.layers) * 12 * width * width + double(config.vocab + config.sequence) * width;
  if (elements > elementLimit)
    throw InputError(
        fmt::format("the model would have {:.3g} parameters, at most {:.3g} are allowed", elements, elementLimit));
}

Gpt2Config readConfig(const std::string &path, std::vector<std::string> *notes, std::string *text) {
  MappedFile file(path);
  Json json = parseConfigText(file);
  if (text)
    text->assign(reinterpret_cast<const char *>(file.data()), size_t(file.size()));
  ConfigReader reader{path, json};
  refuseOtherModels(reader);
  Gpt2Config config{.layers = reader.size("n_layer"),
                    .heads = reader.size("n_head"),
                    .width = reader.size("n_embd"),
                    .sequence = reader.size("n_positions"),
                    .vocab = reader.size("vocab_size"),
                    .layerNormEpsilon = reader.number("layer_norm_epsilon", 1e-5)};
  try {
    checkConfig(config);
  } catch (const InputError &error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
  for (const char *key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    if (double dropout = reader.number(key, 0); dropout != 0 && notes)
      notes->push_back(fmt::format("{}: `{}` is {}, training here uses no dropout", path, key, dropout));
  return config;
}

void writeConfig(const std::string &path, const Gpt2Config &config, const std::string &original) {
  // What another GPT-2 may say otherwise; what this one is and how it is stored.
  const Json usual = {{"architectures", {"GPT2LMHeadModel"}},
                      {"activation_function", "gelu_new"},
                      {"resid_pdrop", 0.0},
                      {"embd_pdrop", 0.0},
                      {"attn_pdrop", 0.0},
                      {"tie_word_embeddings", true}};
  const Json own = {{"model_type", "gpt2"},
                    {"vocab_size", config.vocab},
                    {"n_positions", config.sequence},
                    {"n_embd", config.width},
                    {"n_layer", config.layers},
                    {"n_head", config.heads},
                    {"layer_norm_epsilon", config.layerNormEpsilon}};
  Json json = original.empty() ? usual : Json::parse(original);
  json.update(own);
  // transformers has renamed the key; a file has either.
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
  AtomicFile file(path);
  file.write(json.dump(2) + "\n");
  file.commit();
}

int64_t Gpt2Parameter::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

std::vector<Gpt2Parameter> gpt2Parameters(const Gpt2Config &config) {
  const int64_t width = config.width;
  constexpr double deviation = 0.02;
  // Each block adds twice to the residual stream; this keeps the stream's variance independent of the depth.
  const double residual = deviation / std::sqrt(2.0 * double(config.layers));
  std::vector<Gpt2Parameter> list;
  auto layerNorm = [&](const std::string &name) {
    list.push_back(vectorParameter(name + ".weight", width, InitialValue::Ones));
    list.push_back(vectorParameter(name + ".bias", width, InitialValue::Zeros));
  };
  auto linear = [&](const std::string &name, int64_t in, int64_t out, double std) {
    list.push_back(matrixParameter(name + ".weight", in, out, std));
    list.push_back(vectorParameter(name + ".bias", out, InitialValue::Zeros));
  };
  list.push_back(matrixParameter("wte.weight", config.vocab, width, deviation));
  list.push_back(matrixParameter("wpe.weight", config.sequence, width, deviation));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string block = fmt::format("h.{}.", layer);
    layerNorm(block + "ln_1");
    linear(block + "attn.c_attn", width, 3 * width, deviation);
    linear(block + "attn.c_proj", width, width, residual);
    layerNorm(block + "ln_2");
    linear(block + "mlp.c_fc", width, 4 * width, deviation);
    linear(block + "mlp.c_proj", 4 * width, width, residual);
  }
  layerNorm("ln_f");
  return list;
}

void fillInitial(const Gpt2Parameter &parameter, uint64_t seed, std::span<float> out) {
  if (parameter.initial != InitialValue::Normal) {
    std::fill(out.begin(), out.end(), parameter.initial == InitialValue::Ones ? 1.f : 0.f);
    return;
  }
  // Each value depends on its index alone, so the number of threads never shows.
  const uint64_t stream = streamOf(parameter.name);
  constexpr size_t share = size_t(1) << 18;
  size_t threads = std::clamp<size_t>(out.size() / share, 1, std::max(1u, std::thread::hardware_concurrency()));
  auto part = [&](size_t index) {
    fillNormal(seed, stream, parameter.deviation, out, out.size() * index / threads,
               out.size() * (index + 1) / threads);
  };
  std::vector<std::jthread> workers;
  for (size_t i = 1; i < threads; ++i)
    workers.emplace_back(part, i);
  part(0);
}

int64_t parameterCount(const Gpt2Config &config) {
  int64_t count = 0;
  for (const Gpt2Parameter &parameter : gpt2Parameters(config))
    count += parameter.elements();
  return count;
}

double flopsPerToken(const Gpt2Config &config, int64_t sequence) {
  return 6.0 * double(parameterCount(config)) + 12.0 * double(config.layers) * double(config.width) * double(sequence);
}

} // namespace tcc::models
