#include "models/checkpoint.h"
#include "test_files.h"

#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

constexpr Gpt2Config small{.layers = 1, .heads = 2, .width = 4, .sequence = 3, .vocab = 5};

/// The small model's parameters with recognisable values; `rename` and `reshape` make deviations.
struct Weights {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;

  explicit Weights(const std::string &prefix = "") {
    for (const ParameterSpec &parameter : gpt2Parameters(small)) {
      std::vector<float> &own = values.emplace_back(size_t(parameter.elements()));
      fillInitial(parameter, 3, own);
      tensors.push_back({prefix + parameter.name, parameter.shape, own});
    }
  }
  NamedTensor &named(const std::string &name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor &t) { return t.name == name; });
  }
  void add(const std::string &name, const std::vector<int64_t> &shape) {
    size_t count = 1;
    for (int64_t dim : shape)
      count *= size_t(dim);
    tensors.push_back({name, shape, values.emplace_back(count, 9.f)});
  }
};

std::string openError(const Weights &weights) {
  TemporaryFolder folder;
  writeModelFolder(folder.path("m"), small, weights.tensors);
  return errorOf([&] { ModelFolder read(folder.path("m")); });
}

void expectWeights(const ModelFolder &folder, const Weights &weights) {
  size_t index = 0;
  for (const ParameterSpec &parameter : gpt2Parameters(small)) {
    std::vector<float> values(size_t(parameter.elements()));
    folder.read(parameter, values);
    EXPECT_EQ(values, weights.values[index++]) << parameter.name;
  }
}

TEST(Checkpoint, roundTripWithEitherPrefix) {
  for (const char *prefix : {"", "transformer."}) {
    TemporaryFolder folder;
    Weights weights(prefix);
    writeModelFolder(folder.path("new/m"), small, weights.tensors);
    ModelFolder read(folder.path("new/m"));
    EXPECT_EQ(read.config(), small);
    EXPECT_TRUE(read.notes().empty());
    expectWeights(read, weights);
  }
}

TEST(Checkpoint, passesOverMasksAndTheTiedHead) {
  Weights weights;
  weights.add("h.0.attn.bias", {1, 1, 3, 3});
  weights.tensors.push_back({"lm_head.weight", {5, 4}, weights.values[0]});
  weights.add("score.weight", {2});
  TemporaryFolder folder;
  writeModelFolder(folder.path("m"), small, weights.tensors);
  ModelFolder read(folder.path("m"));
  ASSERT_EQ(read.notes().size(), 1u);
  expectContains(read.notes()[0], "tensor `score.weight` is not of this model");
}

TEST(Checkpoint, aHeadOfItsOwnIsNeverDropped) {
  Weights weights;
  weights.add("lm_head.weight", {5, 4});
  expectContains(openError(weights),
                 "tensor `lm_head.weight` is not `wte.weight`, though `tie_word_embeddings` is true");
  Weights narrow;
  narrow.add("lm_head.weight", {4, 4});
  expectContains(openError(narrow), "tensor `lm_head.weight` is not `wte.weight`");
}

/// The small model in two shards with an index.
std::string writeShards(const TemporaryFolder &folder, const Weights &weights, nlohmann::json index = {}) {
  writeConfig(folder.path("config.json"), small);
  const size_t half = weights.tensors.size() / 2;
  for (size_t i = 0; i < weights.tensors.size(); ++i)
    index["weight_map"].emplace(weights.tensors[i].name, i < half ? "a.safetensors" : "b.safetensors");
  writeTensors(folder.path("a.safetensors"), std::span(weights.tensors).first(half));
  writeTensors(folder.path("b.safetensors"), std::span(weights.tensors).subspan(half));
  folder.write("model.safetensors.index.json", index.dump());
  return folder.path("");
}

TEST(Checkpoint, readsShards) {
  TemporaryFolder folder;
  Weights weights("transformer.");
  ModelFolder read(writeShards(folder, weights));
  expectWeights(read, weights);
}

TEST(Checkpoint, refusesDamagedIndexes) {
  TemporaryFolder folder;
  const Weights weights;
  auto error = [&](const nlohmann::json &index) {
    return errorOf([&] { ModelFolder read(writeShards(folder, weights, index)); });
  };
  EXPECT_EQ(error({}), "");
  expectContains(error({{"weight_map", {{"extra", "a.safetensors"}}}}),
                 "a.safetensors: tensor `extra` is missing, model.safetensors.index.json says that it is here");
  expectContains(error({{"weight_map", {{"extra", "../a.safetensors"}}}}), "is no name of a .safetensors file");
  expectContains(error({{"weight_map", {{"extra", 3}}}}), "the shard of `extra` is no string");
  expectContains(error({{"weight_map", {{"extra", "c.safetensors"}}}}), "c.safetensors: cannot open");
  const std::string path = writeShards(folder, weights);
  auto text = [&](const std::string &content) {
    folder.write("model.safetensors.index.json", content);
    return errorOf([&] { ModelFolder read(path); });
  };
  expectContains(text("{"), "index.json: byte 2: not valid JSON");
  expectContains(text("[]"), "an object with `weight_map` is expected");
  expectContains(text("[[[[[[[]]]]]]]"), "nested deeper than");
  expectContains(text(R"({"weight_map": {"wte.weight": "a.safetensors"}})"),
                 "is missing, config.json asks for 1 layers");
  writeTensors(folder.path("b.safetensors"), weights.tensors);
  expectContains(text(R"({"weight_map": {"wte.weight": "a.safetensors", "ln_f.bias": "b.safetensors"}})"),
                 "stands in a.safetensors too");
}

TEST(Checkpoint, keepsWhatAConfigurationSaysBeside) {
  TemporaryFolder folder;
  const Weights weights;
  writeModelFolder(folder.path("first"), small, weights.tensors);
  auto config = nlohmann::ordered_json::parse(readAll(folder.path("first/config.json")));
  config["resid_pdrop"] = 0.25;
  config["bos_token_id"] = 3;
  config["eos_token_id"] = {4, 2};
  config["task_specific_params"] = {{"text-generation", {{"max_length", 50}}}};
  config["torch_dtype"] = "bfloat16";
  folder.write("first/config.json", config.dump());
  const ModelFolder first(folder.path("first"));
  writeModelFolder(folder.path("second"), first.config(), weights.tensors, first.configText());
  config["torch_dtype"] = "float32";
  EXPECT_EQ(nlohmann::ordered_json::parse(readAll(folder.path("second/config.json"))), config);
}

TEST(Checkpoint, dropsPaddingRows) {
  Weights weights;
  std::vector<float> padded = weights.values[0];
  padded.resize(8 * 4, 77);
  weights.named("wte.weight") = {"wte.weight", {8, 4}, padded};
  TemporaryFolder folder;
  writeModelFolder(folder.path("m"), small, weights.tensors);
  ModelFolder read(folder.path("m"));
  std::vector<float> values(5 * 4);
  read.read(gpt2Parameters(small)[0], values);
  EXPECT_EQ(values, weights.values[0]);
  ASSERT_EQ(read.notes().size(), 1u);
  expectContains(read.notes()[0], "3 padding rows of `wte.weight` are dropped");
}

TEST(Checkpoint, refusesMissingAndMisshapenTensors) {
  Weights missing;
  missing.named("ln_f.bias").name = "ln_f.bios";
  expectContains(openError(missing), "tensor `ln_f.bias` is missing, config.json asks for 1 layers");
  Weights transposed;
  transposed.named("h.0.attn.c_attn.weight").shape = {12, 4};
  expectContains(openError(transposed),
                 "tensor `h.0.attn.c_attn.weight` has shape [12, 4], but config.json makes it [4, 12]");
  Weights flat;
  flat.named("wte.weight").shape = {20};
  expectContains(openError(flat), "`wte.weight` has shape [20]");
}

TEST(Checkpoint, refusesIncompleteFolders) {
  TemporaryFolder folder;
  auto error = [&] { return errorOf([&] { ModelFolder read(folder.path("")); }); };
  expectContains(errorOf([&] { ModelFolder read(folder.path("none")); }), "none/config.json: cannot open");
  writeConfig(folder.path("config.json"), small);
  expectContains(error(), "model.safetensors: cannot open");
  folder.write("pytorch_model.bin", "x");
  expectContains(error(), "holds pytorch_model.bin, which is never unpickled here");
  expectContains(error(), "To convert it: python3 -c");
  TensorToWrite integers{"wte.weight", TensorDtype::U8, {5, 4}, {}};
  std::vector<std::byte> bytes(20);
  integers.bytes = bytes;
  writeSafetensors(folder.path("model.safetensors"), {&integers, 1});
  expectContains(error(), "tensor `wte.weight` is U8, only F32, F16 and BF16");
  expectContains(errorOf([&] { writeModelFolder(folder.path("config.json/x"), small, {}); }), "cannot make the folder");
}

} // namespace
} // namespace tcc::models
