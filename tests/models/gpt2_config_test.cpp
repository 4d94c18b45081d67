#include "models/model_config.h"
#include "test_files.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

using Json = nlohmann::json;

Json validConfig() {
  return {{"model_type", "gpt2"}, {"vocab_size", 256}, {"n_positions", 64},
          {"n_embd", 128},        {"n_layer", 4},      {"n_head", 4}};
}

std::string readError(const std::string &text) {
  MemoryFile memory;
  std::string path = memory.write(text);
  std::string error = errorOf([&] { readConfig(path); });
  if (!error.empty())
    expectContains(error, path + ": ");
  return error;
}

std::string readErrorWith(const std::string &key, const Json &value) {
  Json json = validConfig();
  json[key] = value;
  return readError(json.dump());
}

TEST(Gpt2Config, presetsHaveTheKnownNumberOfParameters) {
  EXPECT_EQ(parameterCount(*gpt2Preset("gpt2")), 124439808); // as published for GPT-2 small
  // By hand: embeddings, 12 w^2 + 13 w a block, two vectors at the end.
  EXPECT_EQ(parameterCount(*gpt2Preset("baby")), (256 + 64) * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128);
  EXPECT_EQ(parameterCount(*gpt2Preset("char")), (256 + 256) * 384 + 6 * (12 * 384 * 384 + 13 * 384) + 2 * 384);
  EXPECT_FALSE(gpt2Preset("gpt3"));
  // As published for the larger ones and for llama-160m.
  EXPECT_EQ(parameterCount(*gpt2Preset("gpt2-medium")), 354823168);
  EXPECT_EQ(parameterCount(*gpt2Preset("gpt2-large")), 774030080);
  EXPECT_EQ(parameterCount(*gpt2Preset("gpt2-xl")), 1557611200);
  EXPECT_EQ(parameterCount(*modelPreset("llama-160m")), 162417408);
  // GPT-2 small without the biases of queries, keys and values, with a head of its own.
  EXPECT_EQ(parameterCount(*gpt2Preset("script-163m")), 124439808 - 12 * 3 * 768 + 50257 * 768);
  EXPECT_EQ(parameterCount(*gpt2Preset("script-163m")), 163009536);
  EXPECT_FALSE(modelPreset("gpt3"));
  for (const std::string &name : modelPresetNames())
    EXPECT_EQ(errorOf([&] { checkConfig(modelPreset(name).value()); }), "") << name;
}

// Twelve layers of 12 · 768² in GPT-2, of 16 · 768² in Llama; a head, and no embedding that is read alone.
TEST(Gpt2Config, operationsAreThoseOfMatricesThatAreMultiplied) {
  const double square = 768.0 * 768, pairs = 6.0 * 12 * 768 * 256;
  EXPECT_EQ(trainingFlopsPerToken(*modelPreset("gpt2"), 256), 6 * (12 * 12 * square + 50257.0 * 768) + pairs);
  EXPECT_EQ(trainingFlopsPerToken(*modelPreset("llama-160m"), 256), 6 * (12 * 16 * square + 32000.0 * 768) + pairs);
  EXPECT_EQ(trainingFlopsPerToken(*modelPreset("modern-124m"), 256), 6 * (12 * 12 * square + 50304.0 * 768) + pairs);
}

TEST(Gpt2Config, listsParametersAsHuggingFaceDoes) {
  std::vector<ParameterSpec> list = gpt2Parameters(*gpt2Preset("baby"));
  ASSERT_EQ(list.size(), 4u + 12 * 4);
  std::vector<std::string> names;
  for (const ParameterSpec &p : list)
    names.push_back(p.name);
  EXPECT_EQ((std::vector<std::string>(names.begin(), names.begin() + 14)),
            (std::vector<std::string>{"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                                      "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                                      "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
                                      "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias"}));
  EXPECT_EQ(names.back(), "ln_f.bias");
  auto shape = [&](size_t i) { return list[i].shape; };
  EXPECT_EQ(shape(0), (std::vector<int64_t>{256, 128}));
  EXPECT_EQ(shape(1), (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(shape(4), (std::vector<int64_t>{128, 384}));
  EXPECT_EQ(shape(6), (std::vector<int64_t>{128, 128}));
  EXPECT_EQ(shape(10), (std::vector<int64_t>{128, 512}));
  EXPECT_EQ(shape(12), (std::vector<int64_t>{512, 128}));
  for (const ParameterSpec &p : list) {
    bool matrix = p.shape.size() == 2;
    EXPECT_EQ(p.decays, matrix) << p.name;
    EXPECT_EQ(p.initial == InitialValue::Normal, matrix) << p.name;
    bool residual = p.name.ends_with("c_proj.weight");
    if (matrix) {
      EXPECT_DOUBLE_EQ(p.deviation, residual ? 0.02 / std::sqrt(8.0) : 0.02) << p.name;
    } else {
      EXPECT_EQ(p.initial == InitialValue::Ones, p.name.find("ln_") != std::string::npos && p.name.ends_with("weight"));
    }
  }
}

TEST(Gpt2Config, initialValuesFollowTheirRule) {
  std::vector<ParameterSpec> list = gpt2Parameters(*gpt2Preset("char"));
  std::vector<float> ones(384), zeros(384, 5);
  fillInitial(list[2], 1, ones);
  fillInitial(list[3], 1, zeros);
  EXPECT_EQ(ones, std::vector<float>(384, 1));
  EXPECT_EQ(zeros, std::vector<float>(384, 0));
  for (size_t i : {4, 12}) {
    std::vector<float> values(size_t(list[i].elements()));
    fillInitial(list[i], 1, values);
    double sum = 0, squares = 0;
    for (float x : values)
      sum += x, squares += double(x) * x;
    double n = double(values.size());
    EXPECT_NEAR(sum / n, 0, 4 * list[i].deviation / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n), list[i].deviation, 0.01 * list[i].deviation);
  }
}

TEST(Gpt2Config, initialValuesDependOnSeedAndNameAlone) {
  ParameterSpec wide = gpt2Parameters(*gpt2Preset("char"))[10]; // long enough to be filled by several threads
  std::vector<float> whole(size_t(wide.elements())), again(whole.size()), front(1000), other(1000);
  fillInitial(wide, 1, whole);
  fillInitial(wide, 1, again);
  fillInitial(wide, 1, front);
  EXPECT_EQ(whole, again);
  EXPECT_TRUE(std::equal(front.begin(), front.end(), whole.begin()));
  fillInitial(wide, 2, other);
  EXPECT_NE(other, front);
  wide.name = "h.1.mlp.c_fc.weight";
  fillInitial(wide, 1, other);
  EXPECT_NE(other, front);
}

TEST(Gpt2Config, refusesImpossibleSizes) {
  auto error = [](auto change) {
    Gpt2Config config;
    change(config);
    return errorOf([&] { checkConfig(config); });
  };
  expectContains(error([](Gpt2Config &c) { c.layers = 0; }), "layers is 0, it must be from 1");
  expectContains(error([](Gpt2Config &c) { c.layers = 4097; }), "layers is 4097, it must be from 1 to 4096");
  expectContains(error([](Gpt2Config &c) { c.vocab = int64_t(1) << 62; }), "vocab is 4611686018427387904");
  expectContains(error([](Gpt2Config &c) { c.heads = 3; }), "width 128 is not a multiple of heads 3");
  expectContains(error([](Gpt2Config &c) { c.width = 1 << 20; }), "the model would have");
  expectContains(error([](Gpt2Config &c) { c.layerNormEpsilon = NAN; }), "layer norm epsilon is nan");
}

TEST(Gpt2Config, configFileRoundTrip) {
  TemporaryFolder folder;
  Gpt2Config config{.layers = 3,
                    .heads = 2,
                    .width = 64,
                    .sequence = 48,
                    .vocab = 300,
                    .layerNormEpsilon = 1e-6,
                    .tied = false,
                    .dropout = {0.1, 0.2, 0.3}};
  writeConfig(folder.path("config.json"), config);
  std::vector<std::string> notes;
  EXPECT_TRUE(readConfig(folder.path("config.json"), &notes) == config);
  EXPECT_TRUE(notes.empty());
  Json json = Json::parse(readAll(folder.path("config.json")));
  EXPECT_EQ(json["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(json["model_type"], "gpt2");
}

TEST(Gpt2Config, readsWhatTransformersWrites) {
  TemporaryFolder folder;
  Json json = validConfig();
  json.update({{"n_ctx", 64},
               {"n_inner", nullptr},
               {"attn_pdrop", 0.1},
               {"summary_type", "cls_index"},
               {"summary_first_dropout", 0.1},
               {"task_specific_params", {{"text-generation", {{"do_sample", true}}}}}});
  std::vector<std::string> notes;
  const ModelConfig read = readConfig(folder.write("config.json", json.dump()), &notes);
  Gpt2Config expected = *gpt2Preset("baby");
  expected.dropout.attention = 0.1;
  EXPECT_TRUE(read == expected);
  EXPECT_TRUE(notes.empty());
}

TEST(Gpt2Config, refusesOtherModels) {
  EXPECT_EQ(readError(validConfig().dump()), "");
  expectContains(readErrorWith("activation_function", "relu"), "`activation_function` is `relu`, only the tanh form");
  EXPECT_EQ(readErrorWith("activation_function", "gelu_pytorch_tanh"), "");
  expectContains(readErrorWith("model_type", "bert"), "`model_type` is `bert`, one of `gpt2`");
  expectContains(readErrorWith("n_inner", 500), "`n_inner` is 500, only 4 times `n_embd` (512)");
  EXPECT_EQ(readErrorWith("n_inner", 512), "");
  expectContains(readErrorWith("add_cross_attention", true), "only false is supported");
  expectContains(readErrorWith("scale_attn_by_inverse_layer_idx", true), "only false is supported");
}

TEST(Gpt2Config, refusesBadValuesAndFiles) {
  for (const Json &bad : {Json(-4), Json(0), Json(4.5), Json("4"), Json(true), Json::array(), Json(uint64_t(1) << 63)})
    expectContains(readErrorWith("n_layer", bad), "`n_layer` is");
  expectContains(readErrorWith("n_layer", nullptr), "`n_layer` is missing");
  expectContains(readErrorWith("n_head", 5), "width 128 is not a multiple of heads 5");
  expectContains(readErrorWith("layer_norm_epsilon", 0), "layer norm epsilon is 0");
  expectContains(readErrorWith("model_type", 3), "`model_type` is `3`, a string is expected");
  expectContains(readError("[1]"), "not a JSON object");
  expectContains(readError(""), "not valid JSON here");
  expectContains(readError(std::string((1 << 20) + 1, ' ')), "a config.json has at most 1048576");
  std::string deep = "{\"a\":" + std::string(500000, '[');
  expectContains(readError(deep), "nested deeper than 16");
  std::string whole = validConfig().dump();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(readError(whole.substr(0, size)), "") << size;
  expectContains(errorOf([] { readConfig("/nonexistent/config.json"); }), "cannot open");
}

/// A config.json of the Llama family as transformers writes it, with one key changed.
std::string llamaError(const char *key, const Json &value) {
  Json json = {{"model_type", "llama"},
               {"vocab_size", 11},
               {"hidden_size", 12},
               {"intermediate_size", 20},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 6},
               {"num_key_value_heads", 2},
               {"head_dim", 4},
               {"max_position_embeddings", 9},
               {"rms_norm_eps", 1e-5},
               {"tie_word_embeddings", false}};
  json[key] = value;
  return readError(json.dump());
}

TEST(Dropout, ratesAreTheConfigurations) {
  const TemporaryFolder folder;
  const auto rates = [&](const Json &more, std::vector<std::string> *notes = nullptr) {
    Json json = more;
    if (!more.contains("model_type"))
      json.update(validConfig());
    return readConfig(folder.write("config.json", json.dump()), notes).dropout();
  };
  EXPECT_EQ(rates({{"embd_pdrop", 0.1}, {"attn_pdrop", 0.2}, {"resid_pdrop", 0.3}}), (DropoutRates{0.1, 0.2, 0.3}));
  EXPECT_EQ(rates({{"embd_pdrop", nullptr}}), DropoutRates{});
  for (const char *key : {"embd_pdrop", "attn_pdrop", "resid_pdrop"})
    for (const Json &bad : {Json(1), Json(-0.1), Json("0.1")})
      expectContains(readErrorWith(key, bad), fmt::format("`{}` is ", key));
  for (const char *type : {"llama", "qwen2", "qwen3"}) {
    std::vector<std::string> notes;
    const Json json = {{"model_type", type},     {"vocab_size", 11},
                       {"hidden_size", 12},      {"intermediate_size", 20},
                       {"num_hidden_layers", 2}, {"num_attention_heads", 6},
                       {"head_dim", 4},          {"attention_dropout", 0.2},
                       {"hidden_dropout", 0.25}, {"max_position_embeddings", 9}};
    EXPECT_EQ(rates(json, &notes), (DropoutRates{.attention = 0.2})) << type;
    ASSERT_EQ(notes.size(), 1u) << type;
    expectContains(notes[0], "config.json: `hidden_dropout` is 0.25, which training here leaves out");
  }
  EXPECT_EQ((DropoutRates{0.1, 0.1, 0.1}.describe()), "0.1");
  EXPECT_EQ((DropoutRates{.attention = 0.1, .residual = 0.2}.describe()), "attention 0.1, residual 0.2");
}

TEST(LlamaConfig, everyKindComesBackAsItWas) {
  const TemporaryFolder folder;
  LlamaConfig config{.kind = LlamaKind::Qwen3,
                     .heads = 6,
                     .keyValueHeads = 3,
                     .headSize = 10,
                     .normEpsilon = 1e-6,
                     .ropeBase = 5e5,
                     .ropeScaling = RopeScaling{.factor = 32, .originalPositions = 4096},
                     .tied = false,
                     .attentionDropout = 0.2};
  for (LlamaKind kind : {LlamaKind::Llama, LlamaKind::Qwen2, LlamaKind::Qwen3}) {
    config.kind = kind;
    config.mlpBias = kind == LlamaKind::Llama;
    writeConfig(folder.path("config.json"), config);
    EXPECT_TRUE(readConfig(folder.path("config.json")) == config) << ModelConfig(config).describe();
    config.ropeScaling = {};
  }
  const ModernConfig modern{.layers = 3, .heads = 2, .width = 8, .sequence = 7, .vocab = 9, .softcap = 15};
  writeConfig(folder.path("config.json"), modern);
  EXPECT_TRUE(readConfig(folder.path("config.json")) == modern);
}

TEST(LlamaConfig, refusesWhatIsNotHere) {
  EXPECT_EQ(llamaError("head_dim", 4), "");
  expectContains(llamaError("num_key_value_heads", 4), "heads 6 is not a multiple of key and value heads 4");
  expectContains(llamaError("head_dim", 5), "head size 5 is odd");
  expectContains(llamaError("hidden_act", "gelu"), "`hidden_act` is `gelu`, only `silu`");
  expectContains(llamaError("mlp_bias", 1), "`mlp_bias` is `1`, true or false is expected");
  expectContains(llamaError("rope_scaling", {{"rope_type", "yarn"}}), "`rope_type` is `yarn`, only");
  expectContains(llamaError("rope_scaling", 3), "`rope_scaling` is `3`, an object is expected");
  expectContains(llamaError("rope_parameters", {{"rope_type", "llama3"}, {"factor", 0.5}}), "a factor from 1 on");
  expectContains(llamaError("tie_word_embeddings", "yes"), "true or false is expected");
  expectContains(llamaError("rope_theta", 0.5), "rotary base is 0.5");
}

} // namespace
} // namespace tcc::models
