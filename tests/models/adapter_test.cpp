#include "models/adapter.h"
#include "test_files.h"

#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

const ModelConfig small = Gpt2Config{.layers = 2, .heads = 2, .width = 4, .sequence = 3, .vocab = 5};

/// Values of an adapter that can be told apart.
struct Adapter {
  AdapterConfig config{.rank = 3, .alpha = 6, .layers = adaptableLayers(small)};
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;

  void fill() {
    for (const ParameterSpec &parameter : adapterParameters(small, config)) {
      std::vector<float> &own = values.emplace_back(size_t(parameter.elements()));
      for (size_t i = 0; i < own.size(); ++i)
        own[i] = float(values.size()) + float(i) / 1024;
    }
    size_t index = 0;
    for (const ParameterSpec &parameter : adapterParameters(small, config))
      tensors.push_back({parameter.name, parameter.shape, values[index++]});
  }
};

/// Writes the adapter, changes its config.json by `change`, and gives the error of reading it.
template <typename Change>
std::string readError(Adapter adapter, Change change) {
  TemporaryFolder folder;
  writeAdapterFolder(folder.path("a"), small, adapter.config, adapter.tensors, "base");
  const std::string path = folder.path("a/adapter_config.json");
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(readAll(path));
  change(json);
  std::ofstream(path) << json.dump();
  return errorOf([&] { AdapterFolder read(folder.path("a"), small); });
}

TEST(Adapter, isOfEveryLinearLayerButTheHead) {
  const std::vector<std::string> layers = adaptableLayers(small);
  EXPECT_EQ(layers.size(), 8u);
  EXPECT_EQ(layers[0], "h.0.attn.c_attn");
  EXPECT_EQ(adaptableLayers(*modelPreset("llama-baby")).size(), size_t(7 * modelPreset("llama-baby")->layers()));
  for (const std::string &layer : adaptableLayers(*modelPreset("modern-124m")))
    EXPECT_TRUE(layer.starts_with("h.")) << layer;
  const std::vector<ParameterSpec> list = adapterParameters(small, {.rank = 3, .layers = {"h.1.mlp.c_fc"}});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].shape, (std::vector<int64_t>{3, 4}));  // A: [rank, in]
  EXPECT_EQ(list[1].shape, (std::vector<int64_t>{16, 3})); // B: [out, rank]
  EXPECT_EQ(list[1].initial, InitialValue::Zeros);
}

TEST(Adapter, comesBackAsItWasWritten) {
  for (bool all : {true, false}) {
    Adapter adapter;
    if (!all)
      adapter.config.layers = {"h.0.mlp.c_fc", "h.1.attn.c_attn"};
    adapter.fill();
    TemporaryFolder folder;
    writeAdapterFolder(folder.path("new/a"), small, adapter.config, adapter.tensors, "base");
    const AdapterFolder read(folder.path("new/a"), small);
    EXPECT_EQ(read.config().rank, 3);
    EXPECT_EQ(read.config().alpha, 6);
    EXPECT_EQ(read.config().layers.size(), adapter.config.layers.size());
    size_t index = 0;
    for (const ParameterSpec &parameter : adapterParameters(small, read.config())) {
      std::vector<float> values(size_t(parameter.elements()));
      read.read(parameter, values);
      EXPECT_EQ(values, adapter.values[index++]) << parameter.name;
    }
    const auto json = nlohmann::json::parse(read.configText());
    EXPECT_EQ(json["fan_in_fan_out"], true);
    EXPECT_EQ(json["base_model_name_or_path"], "base");
    EXPECT_EQ(json["target_modules"].size(), all ? 3u : 2u);
    EXPECT_EQ(json["target_modules"][0], all ? "c_attn" : "transformer.h.0.mlp.c_fc");
  }
}

TEST(Adapter, keepsWhatItsConfigSaysBeside) {
  Adapter adapter;
  adapter.fill();
  TemporaryFolder folder;
  writeAdapterFolder(folder.path("a"), small, adapter.config, adapter.tensors, "base",
                     R"({"revision": "main", "lora_dropout": 0.05, "r": 1})");
  const auto json = nlohmann::json::parse(readAll(folder.path("a/adapter_config.json")));
  EXPECT_EQ(json["revision"], "main");
  EXPECT_EQ(json["lora_dropout"], 0.05);
  EXPECT_EQ(json["r"], 3);
  const AdapterFolder again(folder.path("a"), small);
  ASSERT_EQ(again.notes().size(), 1u);
  expectContains(again.notes()[0], "adapter_config.json: `lora_dropout` is 0.05, which training here leaves out");
}

TEST(Adapter, refusesWhatWouldBeAnotherFormula) {
  Adapter adapter;
  adapter.fill();
  using Json = nlohmann::ordered_json;
  const std::pair<const char *, Json> changes[] = {{"peft_type", "IA3"},
                                                   {"use_rslora", true},
                                                   {"use_dora", true},
                                                   {"bias", "all"},
                                                   {"modules_to_save", {"lm_head"}},
                                                   {"rank_pattern", {{"c_fc", 8}}}};
  for (const auto &[key, value] : changes) {
    const std::string error = readError(adapter, [&](Json &json) { json[key] = value; });
    EXPECT_NE(error.find("adapter_config.json: `" + std::string(key) + "` is"), std::string::npos) << error;
  }
  EXPECT_NE(readError(adapter, [](Json &json) { json.erase("r"); }).find("`r` is missing"), std::string::npos);
  EXPECT_EQ(readError(adapter, [](Json &json) { json["modules_to_save"] = nullptr; }), "");
}

TEST(Adapter, refusesAnotherRankOrModel) {
  Adapter adapter;
  adapter.fill();
  const std::string rank = readError(adapter, [](nlohmann::ordered_json &json) { json["r"] = 8; });
  EXPECT_NE(rank.find("c_attn.lora_A.weight` is F32 [3, 4], but rank 8 in this model makes it floats [8, 4]"),
            std::string::npos)
      << rank;
  TemporaryFolder folder;
  writeAdapterFolder(folder.path("a"), small, adapter.config, adapter.tensors, "base");
  const std::string model = errorOf([&] {
    AdapterFolder read(folder.path("a"), Gpt2Config{.layers = 1, .heads = 2, .width = 4, .sequence = 3, .vocab = 5});
  });
  EXPECT_NE(model.find("is of no linear layer of this model"), std::string::npos) << model;
  std::vector<NamedTensor> some(adapter.tensors.begin() + 1, adapter.tensors.end());
  writeAdapterFolder(folder.path("b"), small, adapter.config, some, "base");
  EXPECT_NE(errorOf([&] { AdapterFolder read(folder.path("b"), small); }).find("is missing"), std::string::npos);
  EXPECT_NE(errorOf([&] { AdapterFolder read(folder.path("none"), small); }).find("adapter_config.json"),
            std::string::npos);
}

} // namespace
} // namespace tcc::models
