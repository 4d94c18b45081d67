// Every kind of model against losses and gradients that PyTorch and transformers made (models_expected.json, written by
// transformers_parity.py): odd shapes, grouped heads, biases, head norms, scaled rotary embeddings, softcapped logits.
#include "models/model.h"
#include "test_files.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

using Json = nlohmann::json;

Json expectedModels() {
  return Json::parse(readAll("tests/models/models_expected.json"));
}

/// The formula of transformers_parity.py.
void fillByFormula(const Parameter &parameter) {
  const std::string &name = parameter.name();
  int sum = 0;
  for (const char c : name)
    sum += uint8_t(c);
  const bool scale =
      name.ends_with("weight") && (name.find("norm") != std::string::npos || name.find("ln_") != std::string::npos);
  const std::span<float> values = parameter.data<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(0.3 * std::sin(0.7310585 * double(i) + sum % 1000 * 0.1) + (scale ? 1 : 0));
}

Array tokensFrom(int64_t first, int64_t batch, int64_t length, int64_t vocabulary) {
  Array tokens({batch, length}, DType::i32);
  for (int64_t i = 0; i < batch * length; ++i)
    tokens.data<int32_t>()[size_t(i)] = int32_t((7 * (i + first) * (i + first) + 3 * (i + first) + 1) % vocabulary);
  return tokens;
}

FunctionOptions quietly(int level) {
  FunctionOptions options;
  options.level = level;
  options.threads = 1;
  options.checked = true;
  options.report = [](std::string_view) {};
  return options;
}

class Models : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Models,
                         testing::Values("gpt2", "gpt2-untied", "llama", "llama-tied-biases", "llama-mlp-biases",
                                         "qwen2", "qwen3", "modern"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Models, lossAndGradientsAreTransformers) {
  const Json all = expectedModels();
  const int64_t batch = all["batch"], length = all["length"];
  const auto found = std::find_if(all["cases"].begin(), all["cases"].end(),
                                  [](const Json &entry) { return entry["name"] == GetParam(); });
  ASSERT_NE(found, all["cases"].end());
  const Json &expected = *found;
  const TemporaryFolder folder;
  const Model model(readConfig(folder.write("config.json", expected["config"].dump())));
  for (const Parameter &parameter : model.parameters())
    fillByFormula(parameter);
  const int64_t vocabulary = model.config().vocabulary();
  Function function = compile(
      "gradients",
      [model](Tensor tokens, Tensor targets) {
        const Tensor loss = modelLoss(model, tokens, targets);
        std::vector<Tensor> results = gradient(loss, model.parameters());
        results.push_back(loss);
        return results;
      },
      quietly(2));
  const std::vector<Array> results =
      function(tokensFrom(0, batch, length, vocabulary), tokensFrom(1, batch, length, vocabulary));
  const double loss = expected["loss"];
  EXPECT_NEAR(results.back().item(), loss, 1e-5 * loss);
  ASSERT_EQ(expected["gradients"].size(), model.parameters().size());
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    const std::string &name = model.parameters()[p].name();
    ASSERT_TRUE(expected["gradients"].contains(name)) << name;
    double squares = 0, weighted = 0;
    const std::span<const float> values = results[p].data<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      squares += double(values[i]) * double(values[i]);
      weighted += double(values[i]) * std::cos(double(i));
    }
    const double norm = expected["gradients"][name][0];
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << name;
    EXPECT_NEAR(weighted, expected["gradients"][name][1].get<double>(), 1e-4 * norm) << name;
  }
}

/// A model's loss with dropout, by seed.
class LossWithDropout {
public:
  LossWithDropout(const Model &model, double rate) : LossWithDropout(model, DropoutRates{rate, rate, rate}) {}
  LossWithDropout(const Model &model, DropoutRates rates)
      : loss(compile(
            "loss",
            [model, rates](Tensor tokens, Tensor targets, Tensor seed) {
              TrainingDropout dropout{rates, seed};
              return modelLoss(model, tokens, targets, &dropout);
            },
            quietly(2))) {}

  double operator()(int32_t seed) {
    return loss(tokensFrom(0, 2, 6, 11), tokensFrom(1, 2, 6, 11), Array::scalar(seed))[0].item();
  }

private:
  Function loss;
};

TEST(Models, dropoutIsAFunctionOfItsSeed) {
  const Model model(Gpt2Config{.layers = 2, .heads = 2, .width = 8, .sequence = 6, .vocab = 11});
  for (const Parameter &parameter : model.parameters())
    fillByFormula(parameter);
  LossWithDropout none(model, 0), nearlyNone(model, 1e-9), little(model, 0.02), half(model, 0.5);
  const double without = none(1);
  EXPECT_EQ(half(1), half(1));
  EXPECT_NE(half(1), half(2));
  EXPECT_NE(half(1), without);
  EXPECT_NEAR(nearlyNone(1), without, 1e-5) << "attention is the same with and without";
  double sum = 0;
  for (int32_t seed = 0; seed < 30; ++seed)
    sum += little(seed) / 30;
  EXPECT_NEAR(sum, without, 0.1 * without) << "what is kept makes up for what is not";
  // Each place has its own rate.
  for (const DropoutRates &rates :
       {DropoutRates{.embedding = 0.5}, DropoutRates{.attention = 0.5}, DropoutRates{.residual = 0.5}}) {
    LossWithDropout one(model, rates);
    EXPECT_NE(one(1), without) << rates.describe();
    EXPECT_NE(one(1), half(1)) << rates.describe();
  }
}

TEST(Models, llamasAttentionIsDroppedOut) {
  for (const LlamaKind kind : {LlamaKind::Llama, LlamaKind::Qwen2, LlamaKind::Qwen3}) {
    const Model model(LlamaConfig{.kind = kind,
                                  .layers = 2,
                                  .heads = 4,
                                  .keyValueHeads = 2,
                                  .headSize = 4,
                                  .width = 8,
                                  .inner = 12,
                                  .sequence = 6,
                                  .vocab = 11});
    for (const Parameter &parameter : model.parameters())
      fillByFormula(parameter);
    LossWithDropout none(model, 0), nearlyNone(model, {.attention = 1e-9}), little(model, {.attention = 0.02}),
        half(model, {.attention = 0.5});
    const double without = none(1);
    EXPECT_EQ(half(1), half(1));
    EXPECT_NE(half(1), half(2));
    EXPECT_NE(half(1), without);
    EXPECT_NEAR(nearlyNone(1), without, 1e-5);
    double sum = 0;
    for (int32_t seed = 0; seed < 30; ++seed)
      sum += little(seed) / 30;
    EXPECT_NEAR(sum, without, 0.1 * without);
  }
}

/// Loss and gradients of a model, by the names of its parameters.
std::map<std::string, Array> lossAndGradients(const Model &model) {
  Function function = compile(
      "gradients",
      [&model](Tensor tokens, Tensor targets) {
        std::vector<Tensor> results = modelGradients(model, tokens, targets);
        results.push_back(modelLoss(model, tokens, targets));
        return results;
      },
      quietly(2));
  const std::vector<Array> results = function(tokensFrom(0, 2, 7, 13), tokensFrom(1, 2, 7, 13));
  std::map<std::string, Array> named{{"loss", results.back()}};
  for (size_t i = 0; i + 1 < results.size(); ++i)
    named[model.parameters()[i].name()] = results[i];
  return named;
}

/// Element `column` of row `row` in the joined matrix is that of c_q, c_k or c_v.
TEST(Models, separateQueriesKeysAndValuesAreGpt2s) {
  Gpt2Config config{.layers = 2, .heads = 5, .width = 20, .sequence = 9, .vocab = 13, .tied = false};
  const Model joined(config);
  config.separate = true;
  const Model separate(config);
  for (const Parameter &parameter : separate.parameters())
    fillByFormula(parameter);
  const auto valueOf = [](const Model &model, const std::string &name) {
    return *std::ranges::find(model.parameters(), name, &Parameter::name);
  };
  const int64_t width = config.width;
  for (const Parameter &parameter : joined.parameters()) {
    const std::string &name = parameter.name();
    const size_t part = name.find("c_attn");
    if (part == std::string::npos) {
      std::ranges::copy(valueOf(separate, name).read<float>(), parameter.data<float>().begin());
    } else if (name.ends_with(".weight")) {
      for (int64_t i = 0; i < width * 3 * width; ++i) {
        const int64_t row = i / (3 * width), column = i % (3 * width);
        const char *const parts[] = {"c_q", "c_k", "c_v"};
        parameter.data<float>()[size_t(i)] = valueOf(separate, name.substr(0, part) + parts[column / width] + ".weight")
                                                 .read<float>()[size_t(row * width + column % width)];
      }
    }
  }
  const std::map<std::string, Array> one = lossAndGradients(joined), three = lossAndGradients(separate);
  EXPECT_NEAR(three.at("loss").item(), one.at("loss").item(), 1e-6 * one.at("loss").item());
  for (const auto &[name, gradient] : three) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < gradient.shape().elements(); ++i) {
      const size_t part = name.find("attn.c_");
      const std::string_view kinds = "qkv";
      const size_t kind = part == std::string::npos ? kinds.npos : kinds.find(name[part + 7]);
      double expected = 0;
      if (kind != kinds.npos)
        expected = one.at(name.substr(0, part) + "attn.c_attn.weight")
                       .item(i / width * 3 * width + int64_t(kind) * width + i % width);
      else
        expected = one.at(name).item(i);
      difference += std::pow(gradient.item(i) - expected, 2);
      size += expected * expected;
    }
    EXPECT_LE(difference, 1e-10 * size) << name;
  }
}

} // namespace
} // namespace tcc::models
